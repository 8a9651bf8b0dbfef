package io.github.easelgrpc.easel;

import io.grpc.*;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;

/** Functions that create the connection to a server. */
final class Connection {
  private static final Metadata.Key<String> AUTHORIZATION = Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
  /**
   * A service configuration that distributes calls among the servers at all addresses of the host. If grpc-services is on the
   * class path, calls skip servers that fail their health check.
   */
  private static final Map<String, ?> SERVICE_CONFIG =
      Map.of("loadBalancingConfig", List.of(Map.of("round_robin", Map.of())), "healthCheckConfig", Map.of("serviceName", ""));

  private Connection() {}

  /** Reports whether a connection with these credentials may be unencrypted. */
  static boolean isClear(ChannelCredentials credentials) {
    var bare = credentials.withoutBearerTokens();
    return bare instanceof InsecureChannelCredentials
        || bare instanceof ChoiceChannelCredentials && ((ChoiceChannelCredentials) bare).getCredentialsList().stream().anyMatch(Connection::isClear);
  }

  /** Returns credentials that trust only the PEM certificates in a file. */
  static ChannelCredentials trusting(String file) {
    try {
      return TlsChannelCredentials.newBuilder().trustManager(new File(file)).build();
    } catch (IOException e) {
      throw new IllegalArgumentException("EASEL_TLS_CA_FILE: " + e.getMessage(), e);
    }
  }

  /**
   * Returns a channel that distributes calls among the servers at all addresses of the host, and detects dead servers with
   * pings.
   */
  static ManagedChannel connect(String hostPort, ChannelCredentials credentials) {
    return Grpc.newChannelBuilder(hostPort, credentials)
        .disableRetry() // this package itself retries calls
        .disableServiceConfigLookUp()
        .defaultServiceConfig(SERVICE_CONFIG)
        .maxInboundMessageSize(8 << 20) // 8 MiB, twice the maximum size of a message from a server
        .userAgent("easel-java/" + Optional.ofNullable(Easel.class.getPackage().getImplementationVersion()).orElse("dev"))
        .keepAliveTime(10, TimeUnit.SECONDS)
        .keepAliveTimeout(5, TimeUnit.SECONDS)
        .keepAliveWithoutCalls(true) // pings before the first call detect a server that accepts connections but never responds
        .build();
  }

  /**
   * Returns a channel whose calls send the API key. If keyFile is not empty, each call reads the key from this file. If the
   * file can't be read or has no valid key, the call sends the last valid key that was read.
   */
  static Channel authorized(Channel channel, String apiKey, String keyFile) {
    if (apiKey.isEmpty()) {
      return channel;
    }
    var last = new AtomicReference<>(apiKey);
    return ClientInterceptors.intercept(channel, new ClientInterceptor() {
      @Override public <A, B> ClientCall<A, B> interceptCall(MethodDescriptor<A, B> method, CallOptions options, Channel next) {
        return new ForwardingClientCall.SimpleForwardingClientCall<A, B>(next.newCall(method, options)) {
          @Override public void start(Listener<B> listener, Metadata headers) {
            headers.put(AUTHORIZATION, "Bearer " + newest(last, keyFile));
            super.start(listener, headers);
          }
        };
      }
    });
  }

  private static String newest(AtomicReference<String> last, String keyFile) {
    try {
      if (!keyFile.isEmpty()) {
        last.set(readKey(keyFile));
      }
    } catch (IllegalArgumentException e) {
      return last.get(); // the file can't be read or has no valid key
    }
    return last.get();
  }

  /** Returns the API key in a file. */
  static String readKey(String file) {
    try {
      var key = Files.readString(Path.of(file)).strip();
      if (key.isEmpty() || !key.matches("[!-~]*")) {
        throw new IllegalArgumentException("EASEL_API_KEY_FILE: no valid API key in " + file);
      }
      return key;
    } catch (IOException e) {
      throw new IllegalArgumentException("EASEL_API_KEY_FILE: cannot read the file: " + e.getMessage(), e);
    }
  }
}
