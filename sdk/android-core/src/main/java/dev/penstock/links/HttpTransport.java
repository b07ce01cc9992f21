package dev.penstock.links;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URL;
import java.nio.charset.StandardCharsets;

/** Sends posts with HttpURLConnection, which exists on Android and in the JDK. */
public final class HttpTransport implements FirstOpenResolver.Transport {
    private static final int TIMEOUT_MS = 20_000;
    private static final int MAX_BYTES = 64 * 1024;

    private final String host;

    /** host: the URL of Penstock, such as https://penstock.example. */
    public HttpTransport(String host) {
        this.host = host.endsWith("/") ? host.substring(0, host.length() - 1) : host;
    }

    @Override
    public Answer post(String path, String body) throws IOException {
        HttpURLConnection connection = (HttpURLConnection) new URL(host + path).openConnection();
        try {
            connection.setConnectTimeout(TIMEOUT_MS);
            connection.setReadTimeout(TIMEOUT_MS);
            connection.setInstanceFollowRedirects(false);
            connection.setRequestMethod("POST");
            connection.setRequestProperty("Content-Type", "application/json");
            connection.setDoOutput(true);
            try (OutputStream out = connection.getOutputStream()) {
                out.write(body.getBytes(StandardCharsets.UTF_8));
            }
            int status = connection.getResponseCode();
            InputStream in = status < 400 ? connection.getInputStream() : connection.getErrorStream();
            return new Answer(status, textOf(in), connection.getHeaderField("Retry-After"));
        } finally {
            connection.disconnect();
        }
    }

    private static String textOf(InputStream in) throws IOException {
        if (in == null) {
            return null;
        }
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        byte[] chunk = new byte[4096];
        for (int count; bytes.size() < MAX_BYTES && (count = in.read(chunk)) >= 0; ) {
            bytes.write(chunk, 0, count);
        }
        return new String(bytes.toByteArray(), StandardCharsets.UTF_8);
    }
}
