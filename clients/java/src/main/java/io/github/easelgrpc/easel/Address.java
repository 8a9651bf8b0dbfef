package io.github.easelgrpc.easel;

import java.util.regex.Pattern;

/** Where a server is, as EASEL_ADDR says it: host:port, http://host or https://host. */
final class Address {
  private static final Pattern FORM = Pattern.compile("(?:(https?)://)?(\\[[0-9A-Fa-f:.]+]|[A-Za-z0-9.-]+)(?::(\\d{1,5}))?/?");

  final String target; // as gRPC names it
  final boolean loopback;
  final boolean plaintext;

  /** Reads an address, or throws a sentence that says what is wrong with it. */
  Address(String text) {
    var form = FORM.matcher(text);
    if (!form.matches()) {
      throw new IllegalArgumentException("the address \"" + text + "\" is not host:port, http://host:port or https://host:port");
    }
    var scheme = form.group(1);
    if (scheme == null && form.group(3) == null) {
      throw new IllegalArgumentException("the address \"" + text + "\" has no port: write " + text + ":50051, or https://" + text);
    }
    var port = form.group(3) != null ? Integer.parseInt(form.group(3)) : scheme.equals("http") ? 80 : 443;
    if (port < 1 || port > 65535) {
      throw new IllegalArgumentException("the address \"" + text + "\" has a port that is not 1 to 65535");
    }
    var host = form.group(2);
    target = host + ":" + port;
    loopback = host.equalsIgnoreCase("localhost") || host.equals("[::1]") || host.matches("127(\\.\\d+){3}");
    plaintext = scheme == null ? loopback : scheme.equals("http");
  }
}
