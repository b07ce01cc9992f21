package dev.penstock.links;

import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.Locale;
import java.util.Set;

/** The app that reports its first open. */
public final class App {
    final String website;
    final Set<String> linkHosts;
    final String visitorId;
    final String osVersion;
    final String appVersion;

    /**
     * website: the ID of the app, shown on its page in the dashboard. linkHosts: hosts of links, such as go.example.com.
     * visitorId, osVersion, appVersion: may be null.
     */
    public App(
            String website,
            Collection<String> linkHosts,
            String visitorId,
            String osVersion,
            String appVersion) {
        this.website = website;
        Set<String> hosts = new HashSet<>();
        for (String host : linkHosts) {
            hosts.add(host.toLowerCase(Locale.ROOT));
        }
        this.linkHosts = Collections.unmodifiableSet(hosts);
        this.visitorId = visitorId;
        this.osVersion = osVersion;
        this.appVersion = appVersion;
    }

    /** The body that reports the first open. installReferrer, url: may be null. */
    String firstOpenBody(String installId, String installReferrer, String url) {
        String token = LinkEvidence.tokenOfReferrer(installReferrer);
        return new Json.Writer()
                .text("websiteId", website)
                .text("installId", installId)
                .text("platform", "android")
                .flag("firstOpen", true)
                .text("visitorId", visitorId)
                .text("osVersion", osVersion)
                .text("appVersion", appVersion)
                .text("url", LinkEvidence.isLink(url, linkHosts) ? url.trim() : null)
                .text("installReferrer", token == null ? null : "ct=" + token)
                .end();
    }
}
