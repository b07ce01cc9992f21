"""User-Agents of real browsers, apps and robots."""

_IOS = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, "
    "like Gecko)"
)
_WEB_VIEW = "(KHTML, like Gecko) Version/4.0 Chrome/136.0.7103.125 Mobile Safari/537.36"

IOS = {
    "safari": f"{_IOS} Version/18.5 Mobile/15E148 Safari/604.1",
    "chrome": f"{_IOS} CriOS/137.0.7151.107 Mobile/15E148 Safari/604.1",
    "firefox": f"{_IOS} FxiOS/139.0 Mobile/15E148 Safari/605.1.15",
    "edge": f"{_IOS} Version/18.0 EdgiOS/137.0.3296.65 Mobile/15E148 Safari/604.1",
    "safari_26": (
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 "
        "(KHTML, like Gecko) Version/26.0 Mobile/15E148 Safari/604.1"
    ),
    "ipad_mobile_site": (
        "Mozilla/5.0 (iPad; CPU OS 16_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like "
        "Gecko) Version/16.6 Mobile/15E148 Safari/604.1"
    ),
}
ANDROID = {
    "chrome": (
        "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) "
        "Chrome/137.0.0.0 Mobile Safari/537.36"
    ),
    "chrome_tablet": (
        "Mozilla/5.0 (Linux; Android 13; SM-X700) AppleWebKit/537.36 (KHTML, like Gecko) "
        "Chrome/137.0.0.0 Safari/537.36"
    ),
    "samsung": (
        "Mozilla/5.0 (Linux; Android 15; SM-S921B) AppleWebKit/537.36 (KHTML, like "
        "Gecko) SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36"
    ),
    "firefox": "Mozilla/5.0 (Android 14; Mobile; rv:139.0) Gecko/139.0 Firefox/139.0",
}
OTHER_MOBILE = {
    "kaios": "Mozilla/5.0 (Mobile; Nokia 8110 4G; rv:48.0) Gecko/48.0 Firefox/48.0 KAIOS/2.5",
    "harmony": (
        "Mozilla/5.0 (Phone; OpenHarmony 5.0) AppleWebKit/537.36 (KHTML, like Gecko) "
        "Chrome/114.0.0.0 Safari/537.36 ArkWeb/4.1.6.1 Mobile"
    ),
    "windows_phone": (
        "Mozilla/5.0 (Windows Phone 10.0; Android 6.0.1; Microsoft; Lumia 950) "
        "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/52.0.2743.116 Mobile "
        "Safari/537.36 Edge/15.15254"
    ),
}
IN_APP_IOS = {
    "instagram": (
        f"{_IOS} Mobile/15E148 Instagram 385.0.0.27.80 (iPhone14,5; iOS 18_5; en_US; en; "
        "scale=3.00; 1170x2532; 736914518; IABMV/1)"
    ),
    "facebook": (
        f"{_IOS} Mobile/15E148 "
        "[FBAN/FBIOS;FBAV/516.0.0.48.99;FBBV/742058873;FBDV/iPhone14,5;FBMD/iPhone;FBSN/i"
        "OS;FBSV/18.5]"
    ),
    "tiktok": (
        f"{_IOS} Mobile/15E148 musical_ly_39.8.0 BytedanceWebview/d8a21c6 JsSdk/2.0 "
        "NetType/WIFI Channel/App Store ByteLocale/en"
    ),
    "snapchat": f"{_IOS} Mobile/15E148 Snapchat/13.45.0.46 (like Safari/8621.2.5.10.10, panda)",
    "linkedin": f"{_IOS} Mobile/15E148 [LinkedInApp]/9.31.1284",
    "x": f"{_IOS} Mobile/22F76 Twitter for iPhone/11.3",
    "line": f"{_IOS} Mobile/15E148 Safari Line/15.8.0",
    "wechat": f"{_IOS} Mobile/15E148 MicroMessenger/8.0.59(0x18003b2d) NetType/WIFI Language/zh_CN",
    "google": f"{_IOS} GSA/372.0.768 Mobile/15E148 Safari/604.1",
    "other": f"{_IOS} Mobile/15E148",
}
IN_APP_ANDROID = {
    "instagram": (
        "Mozilla/5.0 (Linux; Android 15; SM-S918B Build/AP3A.240905.015.A2; wv) "
        f"AppleWebKit/537.36 {_WEB_VIEW} "
        "Instagram 384.0.0.46.83 Android (35/15; 450dpi; 1080x2115; "
        "samsung; SM-S918B; dm3q; qcom; en_GB; 743563534; IABMV/1)"
    ),
    "facebook": (
        "Mozilla/5.0 (Linux; Android 14; Pixel 8 Build/AP2A.240805.005; wv) "
        f"AppleWebKit/537.36 {_WEB_VIEW} [FB_IAB/FB4A;FBAV/515.0.0.52.108;]"
    ),
    "tiktok": (
        "Mozilla/5.0 (Linux; Android 14; SM-A546B Build/UP1A.231005.007; wv) "
        f"AppleWebKit/537.36 {_WEB_VIEW} trill_390805 BytedanceWebview/d8a21c6 "
        "musical_ly_2023908050 JsSdk/1.0 NetType/WIFI Channel/googleplay "
        "AppName/musical_ly ByteLocale/de-DE"
    ),
    "telegram": (
        "Mozilla/5.0 (Linux; Android 14; SM-S911B Build/UP1A.231005.007; wv) "
        f"AppleWebKit/537.36 {_WEB_VIEW} "
        "Telegram-Android/11.9.2 (Samsung SM-S911B; Android 14; SDK "
        "34; HIGH)"
    ),
    "pinterest": (
        f"Mozilla/5.0 (Linux; Android 14; Pixel 7 Build/AP2A; wv) AppleWebKit/537.36 {_WEB_VIEW} "
        "[Pinterest/Android]"
    ),
    "other": (
        "Mozilla/5.0 (Linux; Android 14; Pixel 8 Build/AP2A.240805.005; wv) "
        f"AppleWebKit/537.36 {_WEB_VIEW}"
    ),
}
DESKTOP = {
    "chrome_windows": (
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like "
        "Gecko) Chrome/137.0.0.0 Safari/537.36"
    ),
    "edge": (
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like "
        "Gecko) Chrome/137.0.0.0 Safari/537.36 Edg/137.0.0.0"
    ),
    "safari_mac_or_ipad": (
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, "
        "like Gecko) Version/18.5 Safari/605.1.15"
    ),
    "firefox_linux": "Mozilla/5.0 (X11; Linux x86_64; rv:139.0) Gecko/20100101 Firefox/139.0",
    "chromebook": (
        "Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) "
        "Chrome/137.0.0.0 Safari/537.36"
    ),
}
ROBOTS = {
    "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)": "preview:slack",
    "Slack-ImgProxy (+https://api.slack.com/robots)": "preview:slack",
    "WhatsApp/2.25.14.75 i": "preview:whatsapp",
    "WhatsApp/2.24.20.89 A": "preview:whatsapp",
    "TelegramBot (like TwitterBot)": "preview:telegram",
    "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)": "preview:facebook",
    "meta-externalfetcher/1.1": "preview:facebook",
    (
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_11_1) AppleWebKit/601.2.4 (KHTML, "
        "like Gecko) Version/9.0.1 Safari/601.2.4 facebookexternalhit/1.1 Facebot "
        "Twitterbot/1.0"
    ): "preview:facebook",  # from iMessage
    "Twitterbot/1.0": "preview:x",
    (
        "LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)"
    ): "preview:linkedin",
    "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)": "preview:discord",
    (
        "Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5 microsoft teams"
    ): "preview:teams",
    "Mozilla/5.0 (compatible; Bluesky Cardyb/1.1; +mailto:support@bsky.app)": "preview:bluesky",
    "http.rb/5.1.1 (Mastodon/4.2.0; +https://mastodon.social/)": "preview:mastodon",
    (
        "Snap URL Preview Service; bot; snapchat; https://developers.snap.com/robots"
    ): "preview:snapchat",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)": "crawler",
    (
        "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) "
        "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/136.0.7103.113 Mobile "
        "Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
    ): "crawler",
    (
        "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; "
        "+http://www.bing.com/bingbot.htm) Chrome/116.0"
    ): "crawler",
    "curl/8.7.1": "crawler",
    "python-requests/2.32.3": "crawler",
    "okhttp/4.12.0": "crawler",
    "node": "crawler",
    "Node.js/22": "crawler",
    "Shop/7 CFNetwork/1496.0.7 Darwin/23.5.0": "crawler",
    "Dalvik/2.1.0 (Linux; U; Android 14; Pixel 8 Build/AP2A.240805.005)": "crawler",
    "Mozilla/5.0 (compatible; SnapchatAds/1.0; +https://businesshelp.snapchat.com)": "crawler",
    "BarracudaCentral.org": "crawler",
    "": "no_user_agent",
}
"""User-Agents of robots -> the reason why they do not count as people."""
