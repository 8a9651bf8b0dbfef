package io.github.easelgrpc.easel;

import io.grpc.Channel;
import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.function.BiConsumer;
import java.util.function.Consumer;

/** The options for a new client. {@link Easel#builder} returns a builder, and {@link #build} creates the client. */
public final class EaselBuilder {
  private static final Executor THREADS = Executors.newCachedThreadPool(task -> {
    var thread = new Thread(task, "easel-async");
    thread.setDaemon(true);
    return thread;
  });

  private String address = variable("EASEL_ADDR", "localhost:50051");
  private String apiKey = variable("EASEL_API_KEY", "");
  private String keyFile = variable("EASEL_API_KEY_FILE", "");
  private String rootsFile = variable("EASEL_TLS_CA_FILE", "");
  private ChannelCredentials credentials;
  private Channel channel;
  private Executor executor = THREADS;
  private Duration timeout; // total time of a read or an order; null means the default for the kind of call
  private int readAttempts = Attempts.Kind.READ.attempts;
  private boolean plaintextKey = "true".equals(System.getenv("EASEL_ALLOW_PLAINTEXT"));
  private BiConsumer<EaselException, Duration> onRetry = (error, delay) -> {};
  private Consumer<Heartbeat> onHeartbeat = heartbeat -> {};
  private Consumer<String> onKey;

  EaselBuilder() {}

  /**
   * Sets the address: host:port, https://host (with TLS), or http://host (without TLS). If the address has no scheme and no
   * credentials are set, the connection uses TLS. The only exception is a loopback address if EASEL_TLS_CA_FILE is unset.
   */
  public EaselBuilder address(String address) {
    this.address = address;
    return this;
  }

  /**
   * Sets the API key or token. By default, each call reads the key from the file named by EASEL_API_KEY_FILE. If that variable
   * is unset, the default is the value of EASEL_API_KEY.
   */
  public EaselBuilder apiKey(String apiKey) {
    this.apiKey = apiKey;
    this.keyFile = "";
    return this;
  }

  /** Sets credentials for the connection, for example with a client certificate. They replace the default TLS or plaintext credentials. */
  public EaselBuilder credentials(ChannelCredentials credentials) {
    this.credentials = credentials;
    return this;
  }

  /**
   * Sets the channel for all calls. The client then ignores the address, the API key and the credentials, and does not close
   * the channel.
   */
  public EaselBuilder channel(Channel channel) {
    this.channel = channel;
    return this;
  }

  /**
   * Allows the client to send the API key without TLS to a host that is not loopback, for example if a service mesh encrypts
   * the connection. EASEL_ALLOW_PLAINTEXT=true does the same.
   */
  public EaselBuilder allowPlaintextKey() {
    plaintextKey = true;
    return this;
  }

  /** Sets a function that is called with the error and the delay before each retry, on the thread that makes the call. */
  public EaselBuilder onRetry(BiConsumer<EaselException, Duration> onRetry) {
    this.onRetry = onRetry;
    return this;
  }

  /** Sets a function that is called with each heartbeat of a watch, on the thread that reads the watch. */
  public EaselBuilder onHeartbeat(Consumer<Heartbeat> onHeartbeat) {
    this.onHeartbeat = onHeartbeat;
    return this;
  }

  /**
   * Sets a function that is called with each idempotency key that the client creates, before the order is sent. If no function
   * is set, the client logs the key.
   */
  public EaselBuilder onKey(Consumer<String> onKey) {
    this.onKey = onKey;
    return this;
  }

  /** Limits the total time of each read and of each order. The default is one minute for a read and 15 minutes for an order. */
  public EaselBuilder timeout(Duration total) {
    this.timeout = total;
    return this;
  }

  /**
   * Sets the number of failed attempts after which a read fails. The default is 5. If the server requests a delay after an
   * attempt, this attempt counts toward a separate limit of 10.
   */
  public EaselBuilder attempts(int attempts) {
    this.readAttempts = attempts;
    return this;
  }

  /** Sets the executor for {@link Easel#async}, for example a virtual-thread executor. The default is a pool of daemon threads. */
  public EaselBuilder executor(Executor executor) {
    this.executor = executor;
    return this;
  }

  /** The settings for all calls. If timeout is null, each kind of call has its default timeout. */
  record Settings(Hooks hooks, Executor executor, Duration timeout, int readAttempts) {}

  private static String variable(String name, String otherwise) {
    return Optional.ofNullable(System.getenv(name)).filter(text -> !text.isBlank()).orElse(otherwise);
  }

  /**
   * Creates the client, which connects on its first call. It throws an IllegalArgumentException if a setting, such as the
   * address or the API key, is invalid.
   */
  public Easel build() {
    var settings = new Settings(new Hooks(onRetry, onHeartbeat, onKey), executor, timeout, readAttempts);
    if (channel != null) {
      return new Easel(null, channel, settings, null, 0, false);
    }
    var where = new Address(address);
    var key = keyFile.isEmpty() ? apiKey.strip() : Connection.readKey(keyFile);
    var trusted = credentials != null || rootsFile.isEmpty() ? credentials : Connection.trusting(rootsFile);
    var plaintext = trusted != null ? Connection.isClear(trusted) : where.clear || where.loopback && !where.encrypted;
    if (plaintext ? where.encrypted : where.clear) {
      throw new IllegalArgumentException(where.clear ? "the address has http://, but the credentials or EASEL_TLS_CA_FILE require TLS; use https://"
          : "the address has https://, but the credentials do not use TLS; use http://");
    }
    if (!key.matches("[!-~]*")) {
      throw new IllegalArgumentException("the API key contains a space, a line break or another invalid character");
    }
    if (plaintext && !where.loopback && !key.isEmpty() && !plaintextKey) {
      throw new IllegalArgumentException("the API key would be sent to " + where.hostPort
          + " without TLS; use https://, or allowPlaintextKey() or EASEL_ALLOW_PLAINTEXT=true if a mesh or tunnel encrypts the connection");
    }
    var security = trusted != null ? trusted : plaintext ? InsecureChannelCredentials.create() : TlsChannelCredentials.create();
    var own = Connection.connect(where.hostPort, security);
    return new Easel(own, Connection.authorized(own, key, keyFile), settings, null, 0, false);
  }
}
