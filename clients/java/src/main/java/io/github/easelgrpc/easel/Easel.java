package io.github.easelgrpc.easel;

import com.google.gson.Gson;
import com.google.gson.reflect.TypeToken;
import io.github.easelgrpc.easel.v1.*;
import io.grpc.*;
import io.grpc.stub.MetadataUtils;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.time.Duration;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.*;

/**
 * A robust client of Easel: every call of the contract, and beside them those that go on through whatever a repeat may
 * mend. They end with the deadline of {@link #withDeadlineAfter}, with the {@link Context} of the caller, or when its thread
 * is interrupted. Many threads may share one.
 */
public final class Easel implements AutoCloseable {
  private static final Duration LONGEST = Duration.ofSeconds(10); // of back-off, before jitter
  private final ManagedChannel own; // null where the channel is the caller's
  private final GenerationServiceGrpc.GenerationServiceBlockingStub generations;
  private final AccountServiceGrpc.AccountServiceBlockingStub accounts;
  private final ModelServiceGrpc.ModelServiceBlockingStub models;
  private final Listener listener;

  /** Hears what the calls that go on do. Called on the caller's thread. */
  public interface Listener {
    /** A watch is quiet, and why. */
    default void onHeartbeat(Heartbeat heartbeat) {}

    /** Another attempt follows an error, after a delay. */
    default void onRetry(StatusRuntimeException error, Duration delay) {}
  }

  /**
   * Connects to a server, with an API key or a service token, by {@code TlsChannelCredentials.create()} or {@code
   * InsecureChannelCredentials.create()}.
   */
  public static Easel connect(String address, String secret, ChannelCredentials credentials) {
    var channel = channel(address, credentials).build();
    return new Easel(channel, authorized(channel, secret), new Listener() {});
  }

  /** Calls over a channel that stays the caller's own. */
  public Easel(Channel channel) {
    this(null, channel, new Listener() {});
  }

  /** Builds a channel that retries unary calls by the service config, and finds out by pings when the server is gone. */
  public static ManagedChannelBuilder<?> channel(String address, ChannelCredentials credentials) {
    var config = new InputStreamReader(Easel.class.getResourceAsStream("/easel/v1/service_config.json"), StandardCharsets.UTF_8);
    return Grpc.newChannelBuilder(address, credentials)
        .defaultServiceConfig(new Gson().fromJson(config, new TypeToken<Map<String, ?>>() {}))
        .keepAliveTime(10, TimeUnit.SECONDS)
        .keepAliveTimeout(5, TimeUnit.SECONDS);
  }

  private static Channel authorized(Channel channel, String secret) {
    var headers = new Metadata();
    if (secret != null && !secret.isEmpty()) {
      headers.put(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER), "Bearer " + secret);
    }
    return ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(headers));
  }

  private Easel(ManagedChannel own, Channel channel, Listener listener) {
    this(own, GenerationServiceGrpc.newBlockingStub(channel), AccountServiceGrpc.newBlockingStub(channel),
        ModelServiceGrpc.newBlockingStub(channel), listener);
  }

  private Easel(ManagedChannel own, GenerationServiceGrpc.GenerationServiceBlockingStub generations,
      AccountServiceGrpc.AccountServiceBlockingStub accounts, ModelServiceGrpc.ModelServiceBlockingStub models, Listener listener) {
    this.own = own;
    this.generations = generations;
    this.accounts = accounts;
    this.models = models;
    this.listener = listener;
  }

  /** The same client, all of whose calls end so long from now. */
  public Easel withDeadlineAfter(long duration, TimeUnit unit) {
    var deadline = Deadline.after(duration, unit);
    return new Easel(own, generations.withDeadline(deadline), accounts.withDeadline(deadline), models.withDeadline(deadline), listener);
  }

  /** The same client, which tells a listener what it does. */
  public Easel withListener(Listener listener) {
    return new Easel(own, generations, accounts, models, listener);
  }

  /** The calls of GenerationService. */
  public GenerationServiceGrpc.GenerationServiceBlockingStub generations() {
    return generations;
  }

  /** The calls of AccountService. */
  public AccountServiceGrpc.AccountServiceBlockingStub accounts() {
    return accounts;
  }

  /** The calls of ModelService. */
  public ModelServiceGrpc.ModelServiceBlockingStub models() {
    return models;
  }

  /** Ends what {@link #connect} has connected: no attempt follows. */
  @Override
  public void close() {
    if (own != null) {
      own.shutdownNow();
    }
  }

  /**
   * Places an order, and sends it again with the same idempotency key until its outcome is known. Write the key down
   * before. Where {@link Errors#orderOutcome} of the exception is UNKNOWN, the order may exist: keep the key.
   */
  public Generation order(CreateGenerationRequest request) {
    if (request.getIdempotencyKey().isEmpty()) {
      throw Status.INVALID_ARGUMENT.withDescription("an order needs an idempotency_key that was written down before").asRuntimeException();
    }
    for (var attempt = 0; ; attempt++) {
      try {
        return generations.createGeneration(request).getGeneration();
      } catch (StatusRuntimeException e) {
        again(e, Errors.repeatHelps(e), attempt, Duration.ZERO, new CountDownLatch(1));
      }
    }
  }

  /** Watches a render to its first terminal state. */
  public Watch<Generation> watch(String generationId) {
    return watch(WatchGenerationRequest.newBuilder().setGenerationId(generationId).build());
  }

  /** Watches a render from known_etag to the goal of the request, over as many streams as it takes. */
  public Watch<Generation> watch(WatchGenerationRequest request) {
    return new GenerationWatch(this, listener, request);
  }

  /**
   * Watches many generations from known_etags, over as many streams as it takes. Where generations are named, it ends when all
   * have reached the goal. Else it yields every generation, new ones as they appear, and has no goal: close it. It repeats no
   * state of the 10,000 generations that changed last.
   */
  public Watch<Generation> watchMany(WatchGenerationsRequest request) {
    return new GenerationsWatch(this, listener, request);
  }

  /** Watches the account with the heartbeats of the contract. */
  public Watch<Account> watchAccount() {
    return watchAccount(WatchAccountRequest.getDefaultInstance());
  }

  /** Watches the account: as it is, and after each change, over as many streams as it takes. It has no goal: close it. */
  public Watch<Account> watchAccount(WatchAccountRequest request) {
    return new AccountWatch(this, listener, request);
  }

  /** Orders, watches until the render is finished, and gives it: its text, or what to download. */
  public Generation run(CreateGenerationRequest request) throws FailedException {
    var render = order(request);
    try (var states = watch(render.getGenerationId())) {
      while (states.hasNext()) {
        render = states.next();
      }
    }
    if (render.getState() != State.STATE_SUCCEEDED) {
      throw new FailedException(render);
    }
    return render;
  }

  /** Does {@link #run} on a thread of the executor, until the future is cancelled. */
  public CompletableFuture<Generation> runAsync(CreateGenerationRequest request, Executor executor) {
    var context = Context.current().withCancellation();
    var future = new CompletableFuture<Generation>();
    future.whenComplete((render, error) -> context.cancel(error));
    executor.execute(context.wrap(() -> {
      try {
        future.complete(run(request));
      } catch (Throwable e) {
        future.completeExceptionally(e);
      }
    }));
    return future;
  }

  /** Fetches the file of a render, which has its name when all bytes are there and right. Until then it is a new file beside it. */
  public ContentInfo download(String generationId, Path file) throws IOException {
    var part = file.resolveSibling("." + file.getFileName() + "." + UUID.randomUUID() + ".part");
    try (var out = FileChannel.open(part, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
      var info = download(generationId, Channels.newOutputStream(out));
      out.force(true);
      Files.move(part, file, StandardCopyOption.REPLACE_EXISTING);
      return info;
    } finally {
      Files.deleteIfExists(part);
    }
  }

  /** Fetches the file of a render into a stream, which has the bytes as they come and is not closed. */
  public ContentInfo download(String generationId, OutputStream to) throws IOException {
    var download = new Download(generationId, to);
    for (var attempt = 0; ; attempt++) {
      var before = download.offset();
      try {
        return download.once(generations);
      } catch (StatusRuntimeException e) {
        attempt = download.offset() > before ? 0 : attempt;
        again(e, Errors.repeatHelps(e), attempt, Duration.ZERO, new CountDownLatch(1));
      }
    }
  }

  /**
   * Waits before another attempt, with back-off and no less than the server asks, or until the caller has ended the calls. The
   * error is thrown where no attempt is worth it.
   */
  void again(StatusRuntimeException error, boolean worth, int attempt, Duration least, CountDownLatch ended) {
    var backOff = Math.min(500L << Math.min(attempt, 8), LONGEST.toMillis()) * ThreadLocalRandom.current().nextDouble(0.5, 1.5);
    var asked = Math.max(least.toMillis(), Errors.retryDelay(error).orElse(Duration.ZERO).toMillis());
    var delay = Math.max((long) backOff, asked);
    var deadline = generations.getCallOptions().getDeadline();
    if (!worth || isClosed() || Thread.currentThread().isInterrupted() || Context.current().isCancelled()
        || deadline != null && deadline.timeRemaining(TimeUnit.MILLISECONDS) < delay) {
      throw error;
    }
    listener.onRetry(error, Duration.ofMillis(delay));
    Context.CancellationListener end = context -> ended.countDown();
    Context.current().addListener(end, Runnable::run);
    try {
      ended.await(delay, TimeUnit.MILLISECONDS);
      if (isClosed() || Context.current().isCancelled()) {
        throw error;
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw error;
    } finally {
      Context.current().removeListener(end);
    }
  }

  private boolean isClosed() {
    return own != null && own.isShutdown();
  }

  /** Reports whether a stream that has lived so long need not count as one more failure in a row. */
  static boolean isLong(long startNanos) {
    return System.nanoTime() - startNanos > LONGEST.toNanos();
  }
}
