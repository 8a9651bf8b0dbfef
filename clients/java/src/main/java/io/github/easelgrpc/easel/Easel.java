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
 * A robust client for Easel, which retries calls if a retry may help. A call ends after its time (see {@link #withTimeout}) or its
 * number of attempts, when the caller's {@link Context} ends, when the client is closed, or when the caller's thread is interrupted.
 * By default, a read has a minute and five attempts, and an order has 15 minutes. Orders, watches and downloads end after 100
 * consecutive failed attempts, about 15 minutes. A call that fails for five seconds is logged. A failed call throws an
 * {@link EaselException}. A client is safe for concurrent use.
 */
public final class Easel implements AutoCloseable {
  private static final Gson JSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();

  private final ManagedChannel own; // null if the caller supplied the channel
  private final Channel channel;
  private final EaselBuilder.Settings settings;
  private final Deadline deadline; // null means no deadline
  private final int attempts; // zero means the default of the kind of call
  private final boolean derived; // whether another client closes the connection

  Easel(ManagedChannel own, Channel channel, EaselBuilder.Settings settings, Deadline deadline, int attempts, boolean derived) {
    this.own = own;
    this.channel = channel;
    this.settings = settings;
    this.deadline = deadline;
    this.attempts = attempts;
    this.derived = derived;
  }

  /** Creates a client for the server at EASEL_ADDR or localhost:50051. EASEL_API_KEY_FILE or EASEL_API_KEY has the API key or token. */
  public static Easel create() {
    return builder().build();
  }

  /** Returns a builder for a client with options. */
  public static EaselBuilder builder() {
    return new EaselBuilder();
  }

  /** Returns a client on the same connection. All its calls end after the timeout, which starts now. It need not be closed. */
  public Easel withTimeout(Duration timeout) {
    return new Easel(own, channel, settings, Deadline.after(timeout.toMillis(), TimeUnit.MILLISECONDS), attempts, true);
  }

  /** Returns a client on the same connection, whose calls fail after this number of consecutive failed attempts. It need not be closed. */
  public Easel withAttempts(int attempts) {
    return new Easel(own, channel, settings, deadline, attempts, true);
  }

  /** A task that makes calls, for {@link #async}. */
  public interface Task<T> {
    T run(Easel easel) throws Exception;
  }

  /**
   * Runs calls on another thread, such as {@code easel.async(client -> client.get(id))}. The future fails with the
   * task's exception. Cancelling the future ends the calls.
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

  /** Returns the stub of GenerationService. Its calls throw gRPC's exceptions. */
  public GenerationServiceGrpc.GenerationServiceBlockingStub generations() {
    return GenerationServiceGrpc.newBlockingStub(channel).withDeadline(deadline);
  }

  /** Returns the stub of AccountService. */
  public AccountServiceGrpc.AccountServiceBlockingStub accounts() {
    return AccountServiceGrpc.newBlockingStub(channel).withDeadline(deadline);
  }

  /** Returns the stub of ModelService. */
  public ModelServiceGrpc.ModelServiceBlockingStub catalog() {
    return ModelServiceGrpc.newBlockingStub(channel).withDeadline(deadline);
  }

  /** Returns the account. Call it first, with a timeout of 10 s, to detect a wrong address, key or certificate. */
  public Account account() {
    var calls = read("GetAccount", "");
    return Account.of(call(calls, () -> calls.on(accounts()).getAccount(GetAccountRequest.getDefaultInstance())).getAccount());
  }

  /** Returns the models that can be ordered. Each page is read when it is needed. */
  public Iterable<Model> models() {
    var calls = read("ListModels", "");
    return () -> new Pages<ListModelsResponse, Model>(
        token -> page(calls, () -> calls.on(catalog()).listModels(ListModelsRequest.newBuilder().setPageToken(token).build())),
        page -> page.getModelsList().stream().map(Model::of).toList(), ListModelsResponse::getNextPageToken);
  }

  /** Returns a model with its input fields. */
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

  /** Creates an order for one render. The inputs have the model's input names, and JSON types: strings, numbers, lists and maps. */
  public OrderRequest order(String modelId, Map<String, ?> inputs) {
    return new OrderRequest(this, CreateGenerationRequest.newBuilder().setModelId(modelId).setInputsJson(JSON.toJson(inputs)));
  }

  /** Returns the current state of a render. */
  public Render get(String generationId) {
    var calls = read("GetGeneration", generationId);
    var request = GetGenerationRequest.newBuilder().setGenerationId(generationId).build();
    return new Render(call(calls, () -> calls.on(generations()).getGeneration(request)).getGeneration(), null);
  }

  /** Waits until a render is finished, and returns the render. It handles errors like a watch. */
  public Render wait(String generationId) {
    return last(watch(generationId));
  }

  /** Returns the last state of a watch. */
  static Render last(Watch<Render> watch) {
    Render last = null;
    for (var render : watch) {
      last = render;
    }
    return last;
  }

  /** Permanently deletes a render and its result. A missing render causes no error, so a retry is safe. */
  public void delete(String generationId) {
    delete(generationId, false);
  }

  /** Deletes a render. force allows the deletion of an unfinished render, whose price may not be refunded. */
  public void delete(String generationId, boolean force) {
    var calls = read("DeleteGeneration", generationId);
    var request = DeleteGenerationRequest.newBuilder().setGenerationId(generationId).setAllowMissing(true).setForce(force).build();
    call(calls, () -> calls.on(generations()).deleteGeneration(request));
  }

  /** Watches a render until it is finished, and reconnects after failures. */
  public Watch<Render> watch(String generationId) {
    return watch(generationId, new WatchOptions());
  }

  /** Watches a render. */
  public Watch<Render> watch(String generationId, WatchOptions options) {
    return watch(generationId, "", options);
  }

  /** Watches an order's render. Each exception contains the order's idempotency key. */
  Watch<Render> watch(String generationId, String key, WatchOptions options) {
    var request = WatchGenerationRequest.newBuilder().setGenerationId(generationId).setUntil(options.until)
        .setKnownEtag(options.knownEtags.getOrDefault(generationId, "")).setHeartbeatInterval(options.heartbeat).build();
    return new GenerationWatch(this, request, key);
  }

  /** Watches all renders, including new ones. The watch has no goal: close it. */
  public Watch<Render> watchMany() {
    return watchMany(List.of());
  }

  /** Watches renders until all are finished. If generationIds is empty, it watches all renders, without an end. */
  public Watch<Render> watchMany(Collection<String> generationIds) {
    return watchMany(generationIds, new WatchOptions());
  }

  /**
   * Watches the named renders until all have reached the goal, and reconnects after failures. If generationIds is empty, it watches
   * all renders, including new ones, without an end. It never repeats a state of the 10,000 renders that changed last.
   */
  public Watch<Render> watchMany(Collection<String> generationIds, WatchOptions options) {
    return new GenerationsWatch(this, WatchGenerationsRequest.newBuilder().addAllGenerationIds(generationIds).setUntil(options.until)
        .putAllKnownEtags(options.knownEtags).setFilter(options.filter.filter).setHeartbeatInterval(options.heartbeat).build());
  }

  /** Returns the matching renders, latest first. Each page is read when it is needed. */
  public Iterable<Render> list(Filter filter) {
    var calls = read("ListGenerations", "");
    var request = ListGenerationsRequest.newBuilder().setFilter(filter.filter).build();
    return () -> new Pages<ListGenerationsResponse, Render>(
        token -> page(calls, () -> calls.on(generations()).listGenerations(request.toBuilder().setPageToken(token).build())),
        page -> page.getGenerationsList().stream().map(generation -> new Render(generation, null)).toList(), ListGenerationsResponse::getNextPageToken);
  }

  /** Returns the numbers and costs of orders, with a row for each value of the dimensions. */
  public Iterable<UsageRow> usage(UsageQuery query) {
    var calls = read("ListUsage", "");
    var request = query.request.build();
    return () -> new Pages<ListUsageResponse, UsageRow>(
        token -> page(calls, () -> calls.on(accounts()).listUsage(request.toBuilder().setPageToken(token).build())),
        page -> page.getRowsList().stream().map(UsageRow::of).toList(), ListUsageResponse::getNextPageToken);
  }

  /**
   * Downloads a render's file. The file gets its name when it is complete and verified. Until then, it has a temporary name in the
   * same directory. If two downloads to the same name are concurrent, the file that is completed later remains.
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
   * Downloads a render's file to a stream, which receives the bytes as they arrive and is not closed. If the download is
   * interrupted and the content has no etag, it can't resume and fails.
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

  /** Closes the connection, and ends all calls. On a client from {@link #withTimeout} or {@link #withAttempts}, it does nothing. */
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

  /** Retries a call until there is a response or a final error, or until its attempts are used up. */
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

  /** Returns the number of failed attempts after which a kind of call fails. */
  int attempts(Attempts.Kind kind) {
    return attempts > 0 ? attempts : kind == Attempts.Kind.READ ? settings.readAttempts() : kind.attempts;
  }

  /** Returns the deadline of a call that starts now, or null if only the Context limits the call. */
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
