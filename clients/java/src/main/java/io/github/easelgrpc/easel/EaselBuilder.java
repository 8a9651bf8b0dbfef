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

/** Options of a client: {@link Easel#builder} makes one, and {@link #build} the client. */
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
  private Duration timeout; // null means that of the kind of call
  private int readAttempts = Attempts.Kind.READ.attempts;
  private boolean plaintextKey = "true".equals(System.getenv("EASEL_ALLOW_PLAINTEXT"));
  private BiConsumer<EaselException, Duration> onRetry = (error, delay) -> {};
  private Consumer<Heartbeat> onHeartbeat = heartbeat -> {};
  private Consumer<String> onKey;

  EaselBuilder() {}

  /** host:port, with TLS unless the host is this machine; https://host, or http://host without TLS. */
  public EaselBuilder address(String address) {
    this.address = address;
    return this;
  }

  /** The API key or token that goes with every call. Without it that of the file EASEL_API_KEY_FILE, which each call reads, otherwise EASEL_API_KEY. */
  public EaselBuilder apiKey(String apiKey) {
    this.apiKey = apiKey;
    this.keyFile = "";
    return this;
  }

  /** Other credentials than those of the address, such as a certificate of one's own. */
  public EaselBuilder credentials(ChannelCredentials credentials) {
    this.credentials = credentials;
    return this;
  }

  /** A channel that stays the caller's own, in place of address, API key and credentials. */
  public EaselBuilder channel(Channel channel) {
    this.channel = channel;
    return this;
  }

  /** Lets the API key go without TLS to another machine, as EASEL_ALLOW_PLAINTEXT=true does: where something on the way encrypts. */
  public EaselBuilder allowPlaintextKey() {
    plaintextKey = true;
    return this;
  }

  /** Hears each error that another attempt follows, and its delay, on the caller's thread. */
  public EaselBuilder onRetry(BiConsumer<EaselException, Duration> onRetry) {
    this.onRetry = onRetry;
    return this;
  }

  /** Hears why a watch is quiet, on the caller's thread. */
  public EaselBuilder onHeartbeat(Consumer<Heartbeat> onHeartbeat) {
    this.onHeartbeat = onHeartbeat;
    return this;
  }

  /** Is given each idempotency key that was made, before its order leaves: write it down. Otherwise it is logged. */
  public EaselBuilder onKey(Consumer<String> onKey) {
    this.onKey = onKey;
    return this;
  }

  /** The total time of each read and order. Without it a minute for a read, and 15 minutes for an order. */
  public EaselBuilder timeout(Duration total) {
    this.timeout = total;
    return this;
  }

  /** The number of attempts of a read. Without it 5. */
  public EaselBuilder attempts(int attempts) {
    this.readAttempts = attempts;
    return this;
  }

  /** Runs the tasks of {@link Easel#async}, such as one of virtual threads. Without it a pool of daemon threads. */
  public EaselBuilder executor(Executor executor) {
    this.executor = executor;
    return this;
  }

  /** The settings of the calls. A null timeout means the default of the kind of call. */
  record Settings(Hooks hooks, Executor executor, Duration timeout, int readAttempts) {}

  private static String variable(String name, String otherwise) {
    return Optional.ofNullable(System.getenv(name)).filter(text -> !text.isBlank()).orElse(otherwise);
  }

  /** Makes the client. Throws IllegalArgumentException where the address or the API key can't be used; nothing is sent yet. */
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
      throw new IllegalArgumentException("the address says " + (where.clear ? "http" : "https") + ", and the credentials do the contrary");
    }
    if (!key.matches("[!-~]*")) {
      throw new IllegalArgumentException("the API key has a space, a line break or another character that no API key has");
    }
    if (plaintext && !where.loopback && !key.isEmpty() && !plaintextKey) {
      throw new IllegalArgumentException("the API key would go to " + where.hostPort
          + " in the clear: use https://, or allowPlaintextKey() or EASEL_ALLOW_PLAINTEXT=true where something else encrypts");
    }
    var security = trusted != null ? trusted : plaintext ? InsecureChannelCredentials.create() : TlsChannelCredentials.create();
    var own = Connection.connect(where.hostPort, security);
    return new Easel(own, Connection.authorized(own, key, keyFile), settings, null, 0, false);
  }
}
