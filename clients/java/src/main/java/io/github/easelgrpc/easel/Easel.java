package io.github.easelgrpc.easel;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import io.github.easelgrpc.easel.v1.*;
import io.grpc.*;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.file.*;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A robust client of Easel: its calls go on through whatever a repeat may mend, for as long as they are let. They end with {@link
 * #withTimeout}, with the {@link Context} of the caller, with {@link #close}, or when the caller's thread is interrupted. What fails is an
 * {@link EaselException}. Many threads may share one client.
 */
public final class Easel implements AutoCloseable {
  private static final Gson JSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
  /** Spreads calls, and leaves out servers that say that they do not serve, where grpc-services is there to ask. */
  private static final Map<String, ?> SERVICE_CONFIG =
      Map.of("loadBalancingConfig", List.of(Map.of("round_robin", Map.of())), "healthCheckConfig", Map.of("serviceName", ""));

  private final ManagedChannel own; // null where the channel is the caller's
  private final Channel channel;
  private final Hooks hooks;
  private final Deadline deadline; // null: none
  private final boolean derived; // so that the connection is another's to close

  private Easel(ManagedChannel own, Channel channel, Hooks hooks, Deadline deadline, boolean derived) {
    this.own = own;
    this.channel = channel;
    this.hooks = hooks;
    this.deadline = deadline;
    this.derived = derived;
  }

  /** A client of the server at EASEL_ADDR, localhost:50051 where that is empty, with the API key or service token in EASEL_API_KEY. */
  public static Easel create() {
    return builder().build();
  }

  /** A client that is not as {@link #create} makes it. */
  public static Builder builder() {
    return new Builder();
  }

  /** How a client is made. */
  public static final class Builder {
    private String address = Optional.ofNullable(System.getenv("EASEL_ADDR")).filter(text -> !text.isBlank()).orElse("localhost:50051");
    private String apiKey = Optional.ofNullable(System.getenv("EASEL_API_KEY")).orElse("");
    private String keyFile = Optional.ofNullable(System.getenv("EASEL_API_KEY_FILE")).orElse("");
    private ChannelCredentials credentials;
    private Channel channel;
    private boolean plaintextKey = "true".equals(System.getenv("EASEL_ALLOW_PLAINTEXT"));
    private BiConsumer<EaselException, Duration> onRetry = (error, delay) -> {};
    private Consumer<Heartbeat> onHeartbeat = heartbeat -> {};
    private Consumer<String> onKey;

    private Builder() {}

    /** host:port, with TLS unless the host is this machine; https://host, or http://host without TLS. */
    public Builder address(String address) {
      this.address = address;
      return this;
    }

    /** The API key or token that goes with every call. Without it that of the file EASEL_API_KEY_FILE, which each call reads, else EASEL_API_KEY. */
    public Builder apiKey(String apiKey) {
      this.apiKey = apiKey;
      this.keyFile = "";
      return this;
    }

    /** Other credentials than those of the address, such as a certificate of one's own. */
    public Builder credentials(ChannelCredentials credentials) {
      this.credentials = credentials;
      return this;
    }

    /** A channel that stays the caller's own, in place of address, API key and credentials. */
    public Builder channel(Channel channel) {
      this.channel = channel;
      return this;
    }

    /** Lets the API key go without TLS to another machine, as EASEL_ALLOW_PLAINTEXT=true does: where something on the way encrypts. */
    public Builder allowPlaintextKey() {
      plaintextKey = true;
      return this;
    }

    /** Is told each error that another attempt follows, and after which delay, on the caller's thread. */
    public Builder onRetry(BiConsumer<EaselException, Duration> onRetry) {
      this.onRetry = onRetry;
      return this;
    }

    /** Is told why a watch is quiet, on the caller's thread. */
    public Builder onHeartbeat(Consumer<Heartbeat> onHeartbeat) {
      this.onHeartbeat = onHeartbeat;
      return this;
    }

    /** Is given each idempotency key that was made, before its order leaves: write it down. Else it is logged. */
    public Builder onKey(Consumer<String> onKey) {
      this.onKey = onKey;
      return this;
    }

    /** Makes the client. Throws IllegalArgumentException where the address or the API key can't be used; nothing is sent yet. */
    public Easel build() {
      var hooks = new Hooks(onRetry, onHeartbeat, onKey);
      if (channel != null) {
        return new Easel(null, channel, hooks, null, false);
      }
      var where = new Address(address);
      var key = keyFile.isEmpty() ? apiKey.strip() : readKey(keyFile);
      var plaintext = credentials != null ? isClear(credentials) : where.clear || where.loopback && !where.encrypted;
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
      var security = credentials != null ? credentials : plaintext ? InsecureChannelCredentials.create() : TlsChannelCredentials.create();
      var own = connect(Hosts.target(where), security);
      return new Easel(own, authorized(own, key, keyFile), hooks, null, false);
    }
  }

  /** Reports whether a connection may be without TLS. */
  private static boolean isClear(ChannelCredentials credentials) {
    var bare = credentials.withoutBearerTokens();
    return bare instanceof InsecureChannelCredentials
        || bare instanceof ChoiceChannelCredentials && ((ChoiceChannelCredentials) bare).getCredentialsList().stream().anyMatch(Easel::isClear);
  }

  /** A channel that spreads calls, and finds out by pings when a server is gone. */
  private static ManagedChannel connect(String target, ChannelCredentials credentials) {
    return Grpc.newChannelBuilder(target, credentials)
        .disableRetry() // what is sent again is sent by this package, which tells of it
        .disableServiceConfigLookUp()
        .defaultServiceConfig(SERVICE_CONFIG)
        .maxInboundMessageSize(8 << 20) // answers have 4 MiB at most
        .userAgent("easel-java/" + Optional.ofNullable(Easel.class.getPackage().getImplementationVersion()).orElse("dev"))
        .keepAliveTime(10, TimeUnit.SECONDS)
        .keepAliveTimeout(5, TimeUnit.SECONDS)
        .build();
  }

  /** A channel whose calls carry the API key. Where it stands in a file, each call reads it, and the last one stays while that can't be. */
  private static Channel authorized(Channel channel, String apiKey, String keyFile) {
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

  private static final Metadata.Key<String> AUTHORIZATION = Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private static String newest(AtomicReference<String> last, String keyFile) {
    try {
      if (!keyFile.isEmpty()) {
        last.set(readKey(keyFile));
      }
    } catch (IllegalArgumentException e) {
      return last.get(); // the last one stays while the file can't be read
    }
    return last.get();
  }

  /** Reads a file with an API key. */
  private static String readKey(String file) {
    try {
      var key = Files.readString(Path.of(file)).strip();
      if (key.isEmpty() || !key.matches("[!-~]*")) {
        throw new IllegalArgumentException("the file of EASEL_API_KEY_FILE holds no API key");
      }
      return key;
    } catch (IOException e) {
      throw new IllegalArgumentException("the file of EASEL_API_KEY_FILE can't be read: " + e.getMessage(), e);
    }
  }

  /** The same client, all of whose calls end so long from now. It needs no close. */
  public Easel withTimeout(Duration timeout) {
    return new Easel(own, channel, hooks, Deadline.after(timeout.toMillis(), TimeUnit.MILLISECONDS), true);
  }

  /** The calls of GenerationService by its messages. They fail as gRPC's own do. */
  public GenerationServiceGrpc.GenerationServiceBlockingStub generations() {
    return GenerationServiceGrpc.newBlockingStub(channel).withDeadline(deadline);
  }

  /** The calls of AccountService. */
  public AccountServiceGrpc.AccountServiceBlockingStub accounts() {
    return AccountServiceGrpc.newBlockingStub(channel).withDeadline(deadline);
  }

  /** The calls of ModelService. */
  public ModelServiceGrpc.ModelServiceBlockingStub models() {
    return ModelServiceGrpc.newBlockingStub(channel).withDeadline(deadline);
  }

  /** What a render would cost now, which no order of it is bound to. */
  public Quote quote(String modelId, Map<String, ?> inputs) {
    var request = QuoteGenerationRequest.newBuilder().setModelId(modelId).setInputsJson(JSON.toJson(inputs)).build();
    return read(() -> generations().quoteGeneration(request)).getQuote();
  }

  /** Begins an order of one render. The inputs are what the model names them, as JSON has them: texts, numbers, lists, maps. */
  public OrderRequest order(String modelId, Map<String, ?> inputs) {
    return new OrderRequest(this, CreateGenerationRequest.newBuilder().setModelId(modelId).setInputsJson(JSON.toJson(inputs)));
  }

  /** Watches a render until it has ended. */
  public Watch<Render> watch(String generationId) {
    return watch(WatchGenerationRequest.newBuilder().setGenerationId(generationId).build());
  }

  /** Watches a render from known_etag to the goal of the request, over as many streams as it takes. */
  public Watch<Render> watch(WatchGenerationRequest request) {
    return new GenerationWatch(this, request, "");
  }

  /** Watches the render of an order, whose key is in each error. */
  Watch<Render> watch(Order order) {
    return new GenerationWatch(this, WatchGenerationRequest.newBuilder().setGenerationId(order.generationId()).build(), order.key());
  }

  /** Watches renders until all have ended: of none, it is over. The states whose etags are known, by id, are not told again. */
  public Watch<Render> watchMany(Collection<String> generationIds, Map<String, String> knownEtags) {
    return watchMany(WatchGenerationsRequest.newBuilder().addAllGenerationIds(generationIds).putAllKnownEtags(knownEtags).build());
  }

  /**
   * Watches the named renders from known_etags, over as many streams as it takes, until all have reached the goal: of none, it is over.
   * It repeats no state of the 10,000 renders that changed last.
   */
  public Watch<Render> watchMany(WatchGenerationsRequest request) {
    var watch = new GenerationsWatch(this, request);
    if (request.getGenerationIdsCount() == 0) { // which the server would take for all
      watch.close();
    }
    return watch;
  }

  /** Watches every render, new ones as they appear. It has no goal: close it. The states whose etags are known, by id, are not told again. */
  public Watch<Render> watchAll(Map<String, String> knownEtags) {
    return watchAll(WatchGenerationsRequest.newBuilder().putAllKnownEtags(knownEtags).build());
  }

  /** Watches every render that the filter lets through, as {@link #watchAll(Map)}. A request that names renders is one of watchMany. */
  public Watch<Render> watchAll(WatchGenerationsRequest request) {
    if (request.getGenerationIdsCount() > 0) {
      throw new IllegalArgumentException("a watch of all names no renders: take watchMany");
    }
    return new GenerationsWatch(this, request);
  }

  /** Watches the account with the heartbeats of the contract. */
  public Watch<Account> watchAccount() {
    return watchAccount(WatchAccountRequest.getDefaultInstance());
  }

  /** Watches the account: as it is, and after each change, over as many streams as it takes. It has no goal: close it. */
  public Watch<Account> watchAccount(WatchAccountRequest request) {
    return new AccountWatch(this, request);
  }

  /** Lists the renders that have all of the labels, the newest first, page by page as they are read. */
  public Iterable<Render> list(Map<String, String> labels) {
    return list(GenerationFilter.newBuilder().putAllLabels(labels).build());
  }

  /** Lists the renders that a filter lets through. */
  public Iterable<Render> list(GenerationFilter filter) {
    var request = ListGenerationsRequest.newBuilder().setFilter(filter).build();
    return () -> new Pages<ListGenerationsResponse, Render>(
        token -> read(() -> generations().listGenerations(request.toBuilder().setPageToken(token).build())),
        page -> page.getGenerationsList().stream().map(generation -> new Render(generation, null)).collect(Collectors.toList()), ListGenerationsResponse::getNextPageToken);
  }

  /** What was spent, a row for each value of the dimensions. */
  public Iterable<UsageRow> usage(UsageDimension... groupBy) {
    return usage(ListUsageRequest.newBuilder().addAllGroupBy(List.of(groupBy)).build());
  }

  /** What was spent between the times of a request. */
  public Iterable<UsageRow> usage(ListUsageRequest request) {
    return () -> new Pages<ListUsageResponse, UsageRow>(
        token -> read(() -> accounts().listUsage(request.toBuilder().setPageToken(token).build())),
        ListUsageResponse::getRowsList, ListUsageResponse::getNextPageToken);
  }

  /**
   * Fetches the file of a render, which has its name when all bytes are there and right. Until then it is a new file beside it. Of two at
   * once to one name the later one stays, whole.
   */
  public ContentInfo download(String generationId, Path file) throws IOException {
    if (Files.exists(file) && !Files.isRegularFile(file)) {
      throw new FileSystemException(file.toString(), null, "not a regular file");
    }
    Download.removeStale(file);
    var part = file.resolveSibling("." + file.getFileName() + "." + UUID.randomUUID() + ".part");
    try (var out = FileChannel.open(part, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE, LinkOption.NOFOLLOW_LINKS)) {
      var info = download(new Download(generationId, Channels.newOutputStream(out), out));
      out.force(true);
      Files.move(part, file, StandardCopyOption.ATOMIC_MOVE);
      return info;
    } finally {
      Files.deleteIfExists(part);
    }
  }

  /**
   * Fetches the file of a render into a stream, which has the bytes as they come and is not closed. Where the download breaks off, and
   * nothing tells whether the rest belongs to those bytes, it fails.
   */
  public ContentInfo download(String generationId, OutputStream to) throws IOException {
    return download(new Download(generationId, to, null));
  }

  private ContentInfo download(Download download) throws IOException {
    for (var attempts = new Attempts(this, "", download.generationId()); ; ) {
      var before = download.offset();
      try {
        return download.once(this);
      } catch (StatusRuntimeException e) {
        if (download.offset() > before) {
          attempts.progress();
        }
        var error = attempts.exception(e);
        attempts.pause(error, error.isRetryable() && download.isResumable(error), Duration.ZERO);
      }
    }
  }

  /** Ends what the client has connected, and every call of it and of those {@link #withTimeout}. Closing one of those ends nothing. */
  @Override
  public void close() {
    if (own != null && !derived) {
      own.shutdownNow();
    }
  }

  private <T> T read(Supplier<T> call) {
    var attempts = new Attempts(this, "", "");
    return call(attempts, attempts::areLeft, call);
  }

  /** Makes a call until it has an answer, an error that a repeat can't mend, or no attempts left. */
  <T> T call(Attempts attempts, Predicate<EaselException> areLeft, Supplier<T> call) {
    for (;;) {
      try {
        var answer = call.get();
        hooks.answered();
        return answer;
      } catch (StatusRuntimeException e) {
        var error = attempts.exception(e);
        attempts.pause(error, error.isRetryable() && areLeft.test(error), Duration.ZERO);
      }
    }
  }

  Hooks hooks() {
    return hooks;
  }

  boolean isClosed() {
    return own != null && own.isShutdown();
  }

  /** Reports whether the timeout, or that of the caller's Context, comes before so many milliseconds. */
  boolean isOverWithin(long millis) {
    return Stream.of(Optional.ofNullable(deadline), Optional.ofNullable(Context.current().getDeadline())).flatMap(Optional::stream)
        .anyMatch(end -> end.timeRemaining(TimeUnit.MILLISECONDS) < millis);
  }
}
