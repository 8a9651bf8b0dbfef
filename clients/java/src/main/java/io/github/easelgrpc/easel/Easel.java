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
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * A robust client for Easel. It retries a failed call if a retry may help. If the call still fails, it throws an
 * {@link EaselException}. By default, a read has one minute and five attempts, and an order has 15 minutes; see
 * {@link #withTimeout} and {@link #withAttempts}. Orders, watches and downloads fail after 100 consecutive failed attempts,
 * which take about 15 minutes. A call also ends when its {@link Context} is canceled, the client is closed or the caller's
 * thread is interrupted. If a call keeps failing for five seconds, the client logs a warning. Any number of threads may use a
 * client concurrently.
 */
public final class Easel implements AutoCloseable {
  private static final Gson JSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();

  private final ManagedChannel own; // channel that the builder created; null if the caller supplied the channel
  private final Channel channel;
  private final EaselBuilder.Settings settings;
  private final Deadline deadline; // deadline of all calls of this client; null means that each call has its own deadline
  private final int attempts; // maximum number of consecutive failed attempts; zero means the default for the kind of call
  private final boolean derived; // whether withTimeout or withAttempts created this client; close() then does nothing

  Easel(ManagedChannel own, Channel channel, EaselBuilder.Settings settings, Deadline deadline, int attempts, boolean derived) {
    this.own = own;
    this.channel = channel;
    this.settings = settings;
    this.deadline = deadline;
    this.attempts = attempts;
    this.derived = derived;
  }

  /**
   * Creates a client for the server at EASEL_ADDR, by default localhost:50051. Each call reads the API key or token from the file
   * named by EASEL_API_KEY_FILE. If that variable is unset, the key is the value of EASEL_API_KEY.
   */
  public static Easel create() {
    return builder().build();
  }

  /** Returns a builder that sets the options of a new client. */
  public static EaselBuilder builder() {
    return new EaselBuilder();
  }

  /**
   * Returns a client on the same connection. All calls of the returned client share one timeout, which starts now. The returned
   * client need not be closed.
   */
  public Easel withTimeout(Duration timeout) {
    return new Easel(own, channel, settings, Deadline.after(timeout.toMillis(), TimeUnit.MILLISECONDS), attempts, true);
  }

  /**
   * Returns a client on the same connection. A call of the returned client fails after this number of consecutive failed
   * attempts. The returned client need not be closed.
   */
  public Easel withAttempts(int attempts) {
    return new Easel(own, channel, settings, deadline, attempts, true);
  }

  /** A task that makes calls, for {@link #async}. */
  public interface Task<T> {
    T run(Easel easel) throws Exception;
  }

  /**
   * Runs a task on another thread, for example {@code easel.async(client -> client.get(id))}. The future fails with the task's
   * exception. Canceling the future cancels the task's calls.
   */
  public <T> CompletableFuture<T> async(Task<T> task) {
    var calls = Context.current().withCancellation();
    var future = new CompletableFuture<T>();
    future.whenComplete((value, error) -> calls.cancel(null));
    settings.executor().execute(calls.wrap(() -> {
      try {
        future.complete(task.run(this));
      } catch (Throwable e) {
        future.completeExceptionally(e);
      }
    }));
    return future;
  }

  /** Returns the gRPC stub of GenerationService. Its calls are not retried, and throw gRPC's exceptions. */
  public GenerationServiceGrpc.GenerationServiceBlockingStub generations() {
    return GenerationServiceGrpc.newBlockingStub(channel).withDeadline(deadline);
  }

  /** Returns the gRPC stub of AccountService. Its calls are not retried, and throw gRPC's exceptions. */
  public AccountServiceGrpc.AccountServiceBlockingStub accounts() {
    return AccountServiceGrpc.newBlockingStub(channel).withDeadline(deadline);
  }

  /** Returns the gRPC stub of ModelService. Its calls are not retried, and throw gRPC's exceptions. */
  public ModelServiceGrpc.ModelServiceBlockingStub catalog() {
    return ModelServiceGrpc.newBlockingStub(channel).withDeadline(deadline);
  }

  /**
   * Returns the account's balance and the caller's budgets. Call it at startup with a timeout of 10 s to detect a wrong
   * address, API key or certificate.
   */
  public Account account() {
    var calls = read("GetAccount", "");
    return Account.of(call(calls, () -> calls.on(accounts()).getAccount(GetAccountRequest.getDefaultInstance())).getAccount());
  }

  /** Returns the models that the caller can order. The iterator requests the pages one by one, as they are needed. */
  public Iterable<Model> models() {
    var calls = read("ListModels", "");
    return () -> new Pages<ListModelsResponse, Model>(
        token -> page(calls, () -> calls.on(catalog()).listModels(ListModelsRequest.newBuilder().setPageToken(token).build())),
        page -> page.getModelsList().stream().map(Model::of).toList(), ListModelsResponse::getNextPageToken);
  }

  /** Returns the model with this ID, including its input fields. */
  public Model model(String modelId) {
    var calls = read("GetModel", "");
    return Model.of(call(calls, () -> calls.on(catalog()).getModel(GetModelRequest.newBuilder().setModelId(modelId).build())).getModel());
  }

  /** Returns the current price of a render. */
  public Quote quote(String modelId, Map<String, ?> inputs) {
    var request = QuoteGenerationRequest.newBuilder().setModelId(modelId).setInputsJson(JSON.toJson(inputs)).build();
    var calls = read("QuoteGeneration", "");
    return Quote.of(call(calls, () -> calls.on(generations()).quoteGeneration(request)).getQuote());
  }

  /** Creates an order for one render, without sending it. The keys of inputs are the model's input names. The values are strings, numbers, Booleans, lists or maps. */
  public OrderRequest order(String modelId, Map<String, ?> inputs) {
    return new OrderRequest(this, CreateGenerationRequest.newBuilder().setModelId(modelId).setInputsJson(JSON.toJson(inputs)));
  }

  /** Returns the current state of a render. */
  public Render get(String generationId) {
    var calls = read("GetGeneration", generationId);
    var request = GetGenerationRequest.newBuilder().setGenerationId(generationId).build();
    return new Render(call(calls, () -> calls.on(generations()).getGeneration(request)).getGeneration(), null);
  }

  /** Waits until a render is finished, and returns the render. It handles failures in the same way as {@link #watch(String)}. */
  public Render wait(String generationId) {
    return last(watch(generationId));
  }

  /** Returns the last state that a watch yields. */
  static Render last(Watch<Render> watch) {
    Render last = null;
    for (var render : watch) {
      last = render;
    }
    return last;
  }

  /** Permanently deletes a render and its result. If the render does not exist, delete does nothing, so a retry is safe. */
  public void delete(String generationId) {
    delete(generationId, false);
  }

  /**
   * Permanently deletes a render and its result. If the render does not exist, delete does nothing, so a retry is safe. If
   * force is true, it also deletes an unfinished render. The catalog does not always refund the price of such a render.
   */
  public void delete(String generationId, boolean force) {
    var calls = read("DeleteGeneration", generationId);
    var request = DeleteGenerationRequest.newBuilder().setGenerationId(generationId).setAllowMissing(true).setForce(force).build();
    call(calls, () -> calls.on(generations()).deleteGeneration(request));
  }

  /** Watches a render until it is finished, and reconnects after failures. */
  public Watch<Render> watch(String generationId) {
    return watch(generationId, new WatchOptions());
  }

  /** Watches a render until it is finished (or settled, see {@link WatchOptions#untilSettled}), and reconnects after failures. */
  public Watch<Render> watch(String generationId, WatchOptions options) {
    return watch(generationId, "", options);
  }

  /** Watches the render of an order. Each exception from the watch contains the order's idempotency key. */
  Watch<Render> watch(String generationId, String key, WatchOptions options) {
    var request = WatchGenerationRequest.newBuilder().setGenerationId(generationId).setUntil(options.until)
        .setKnownEtag(options.knownEtags.getOrDefault(generationId, "")).setHeartbeatInterval(options.heartbeat).build();
    return new GenerationWatch(this, request, key);
  }

  /** Watches all of the caller's renders, including new ones, until the caller closes the watch. */
  public Watch<Render> watchMany() {
    return watchMany(List.of());
  }

  /** Watches renders until all are finished. If generationIds is empty, it watches all renders until the caller closes the watch. */
  public Watch<Render> watchMany(Collection<String> generationIds) {
    return watchMany(generationIds, new WatchOptions());
  }

  /**
   * Watches the renders with these IDs until all are finished (or settled, see {@link WatchOptions#untilSettled}), and
   * reconnects after failures. If generationIds is empty, it watches all matching renders, including new ones, until the caller
   * closes the watch. The watch never repeats a state of the 10,000 renders that changed most recently.
   */
  public Watch<Render> watchMany(Collection<String> generationIds, WatchOptions options) {
    return new GenerationsWatch(this, WatchGenerationsRequest.newBuilder().addAllGenerationIds(generationIds).setUntil(options.until)
        .putAllKnownEtags(options.knownEtags).setFilter(options.filter.filter).setHeartbeatInterval(options.heartbeat).build());
  }

  /** Watches all events from now on. See {@link #events(EventQuery)}. */
  public Watch<Event> events() {
    return events(new EventQuery());
  }

  /**
   * Watches the durable events of the caller's team, or of the caller if it has no team. The watch yields each event at least
   * once, and the events of one render in order. It continues until the caller closes it. After a failure, it reconnects and
   * continues after the last event. If events after the resume token may have been deleted, it throws an exception with the
   * reason RESUME_TOKEN_EXPIRED.
   */
  public Watch<Event> events(EventQuery query) {
    return new EventsWatch(this, query.request.build());
  }

  /**
   * Returns the matching renders, most recently ordered first. The iterator requests the pages one by one, as they are needed.
   */
  public Iterable<Render> list(Filter filter) {
    var calls = read("ListGenerations", "");
    var request = ListGenerationsRequest.newBuilder().setFilter(filter.filter).build();
    return () -> new Pages<ListGenerationsResponse, Render>(
        token -> page(calls, () -> calls.on(generations()).listGenerations(request.toBuilder().setPageToken(token).build())),
        page -> page.getGenerationsList().stream().map(generation -> new Render(generation, null)).toList(), ListGenerationsResponse::getNextPageToken);
  }

  /**
   * Returns the number and the cost of orders, with one row for each combination of values of the query's dimensions. The
   * iterator requests the pages one by one, as they are needed.
   */
  public Iterable<UsageRow> usage(UsageQuery query) {
    var calls = read("ListUsage", "");
    var request = query.request.build();
    return () -> new Pages<ListUsageResponse, UsageRow>(
        token -> page(calls, () -> calls.on(accounts()).listUsage(request.toBuilder().setPageToken(token).build())),
        page -> page.getRowsList().stream().map(UsageRow::of).toList(), ListUsageResponse::getNextPageToken);
  }

  /**
   * Downloads a render's file to a path, and resumes after a failure. A file appears at the path only when it is complete,
   * verified and on disk. Until then, it has a temporary name in the same directory. If two concurrent downloads have the same
   * path, the one that finishes last replaces the other's file.
   */
  public Content download(String generationId, Path file) throws IOException {
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
   * Downloads a render's file to an output stream, and resumes after a failure. The output stream receives the bytes as they
   * arrive and is not closed. If the content has no etag, an interrupted download can't resume and fails.
   */
  public Content download(String generationId, OutputStream to) throws IOException {
    return download(new Download(generationId, to, null));
  }

  private Content download(Download download) throws IOException {
    for (var attempts = new Attempts(this, Attempts.Kind.STREAM, "DownloadGeneration", "", download.generationId()); ; ) {
      var before = download.offset();
      try {
        return Content.of(download.once(this, attempts));
      } catch (StatusRuntimeException e) {
        if (download.offset() > before) {
          attempts.progress();
        }
        var error = attempts.exception(e);
        attempts.pause(error, error.isRetryable() && download.isResumable(error), Duration.ZERO);
      }
    }
  }

  /**
   * Fails the calls in progress and closes the connection. Orders that the server has accepted are not canceled. The
   * method does nothing if {@link #withTimeout} or {@link #withAttempts} created this client, or if its channel was set with
   * {@link EaselBuilder#channel}.
   */
  @Override
  public void close() {
    if (own != null && !derived) {
      own.shutdownNow();
    }
  }

  private Attempts read(String method, String generationId) {
    return new Attempts(this, Attempts.Kind.READ, method, "", generationId);
  }

  private <T> T page(Attempts attempts, Supplier<T> call) {
    attempts.begin();
    return call(attempts, call);
  }

  /** Makes a call, and repeats it until it succeeds, an error is final, or the limits of the call are reached. */
  <T> T call(Attempts attempts, Supplier<T> call) {
    for (;;) {
      try {
        var answer = call.get();
        attempts.responded();
        return answer;
      } catch (StatusRuntimeException e) {
        var error = attempts.exception(e);
        attempts.pause(error, error.isRetryable(), Duration.ZERO);
      }
    }
  }

  Hooks hooks() {
    return settings.hooks();
  }

  /** Returns the number of consecutive failed attempts after which a call of this kind fails. */
  int attempts(Attempts.Kind kind) {
    return attempts > 0 ? attempts : kind == Attempts.Kind.READ ? settings.readAttempts() : kind.attempts;
  }

  /** Returns the deadline of a call that starts now, or null if only the Context limits the time of the call. */
  Deadline deadline(Attempts.Kind kind) {
    if (deadline != null || kind.timeout == null || Context.current().getDeadline() != null) {
      return deadline;
    }
    var timeout = Optional.ofNullable(settings.timeout()).orElse(kind.timeout);
    return Deadline.after(timeout.toMillis(), TimeUnit.MILLISECONDS);
  }

  /** Returns the server's host and port. */
  String address() {
    return channel.authority();
  }

  boolean isClosed() {
    return own != null && own.isShutdown();
  }
}
