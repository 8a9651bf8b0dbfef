package io.github.easelgrpc.easel;

import java.util.Locale;
import java.util.regex.Pattern;

/**
 * A server's address: host:port, http://host:port or https://host:port. In a URL, the port is optional; the default is 80 for
 * http and 443 for https.
 */
final class Address {
  private static final Pattern FORM = Pattern.compile("(?:(https?)://)?(\\[[0-9A-Fa-f:.]+]|[A-Za-z0-9.-]+)(?::(\\d{1,5}))?/?", Pattern.CASE_INSENSITIVE);

  final String hostPort;
  final boolean encrypted; // whether the scheme is https
  final boolean clear; // whether the scheme is http
  final boolean loopback;

  /** Parses an address. It throws an IllegalArgumentException if the address is invalid. */
  Address(String address) {
    var text = address.strip();
    var form = FORM.matcher(text);
    if (!form.matches()) {
      var shown = text.contains("@") ? "" : " \"" + text + "\""; // the part before an @ may contain a password
      throw new IllegalArgumentException("invalid address" + shown + "; write host:port, http://host:port or https://host:port");
    }
    var scheme = form.group(1) == null ? null : form.group(1).toLowerCase(Locale.ROOT);
    if (scheme == null && form.group(3) == null) {
      throw new IllegalArgumentException("the address \"" + text + "\" has no port; write " + text + ":50051, or https://" + text);
    }
    var port = form.group(3) != null ? Integer.parseInt(form.group(3)) : scheme.equals("http") ? 80 : 443;
    if (port < 1 || port > 65535) {
      throw new IllegalArgumentException("the address \"" + text + "\" has an invalid port; the port must be 1 to 65535");
    }
    var host = form.group(2);
    hostPort = host + ":" + port;
    loopback = host.equalsIgnoreCase("localhost") || host.matches("\\[(0*:)*:?0*1]") || host.matches("127(\\.\\d{1,3}){3}");
    encrypted = "https".equals(scheme);
    clear = "http".equals(scheme);
  }
}
