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
 * A robust client of Easel: its calls are repeated if a repeat may help. They end after their time or their number of attempts, with
 * {@link #withTimeout}, with the {@link Context} of the caller, with {@link #close}, or when the caller's thread is interrupted. By default
 * a read has a minute and five attempts, an order 15 minutes; an order, a watch and a download end after 100 failed attempts in a row, about
 * 15 minutes. The logger warns of each call that is retried for five seconds. What fails is an {@link EaselException}. Many threads may
 * share one client.
 */
public final class Easel implements AutoCloseable {
  private static final Gson JSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();

  private final ManagedChannel own; // null where the channel is the caller's
  private final Channel channel;
  private final EaselBuilder.Settings settings;
  private final Deadline deadline; // null: none
  private final int attempts; // 0 means those of the kind of call
  private final boolean derived; // so that the connection is another's to close

  Easel(ManagedChannel own, Channel channel, EaselBuilder.Settings settings, Deadline deadline, int attempts, boolean derived) {
    this.own = own;
    this.channel = channel;
    this.settings = settings;
    this.deadline = deadline;
    this.attempts = attempts;
    this.derived = derived;
  }

  /** A client of the server at EASEL_ADDR, localhost:50051 where that is empty, with the API key or service token in EASEL_API_KEY. */
  public static Easel create() {
    return builder().build();
  }

  /** A client that is not as {@link #create} makes it. */
  public static EaselBuilder builder() {
    return new EaselBuilder();
  }

  /** The same client whose calls all end after the timeout, which starts now. It needs no close. */
  public Easel withTimeout(Duration timeout) {
    return new Easel(own, channel, settings, Deadline.after(timeout.toMillis(), TimeUnit.MILLISECONDS), attempts, true);
  }

  /** The same client with another maximum of failed attempts in a row for all calls. It needs no close. */
  public Easel withAttempts(int attempts) {
    return new Easel(own, channel, settings, deadline, attempts, true);
  }

  /** A task that makes calls, for {@link #async}. */
  public interface Task<T> {
    T run(Easel easel) throws Exception;
  }

  /**
   * Runs calls on another thread, such as {@code easel.async(client -> client.get(id))}. The future fails with the exception of the task.
   * Its cancellation ends the calls.
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

  /** The calls of GenerationService by its messages. They fail as gRPC's own do. */
  public GenerationServiceGrpc.GenerationServiceBlockingStub generations() {
    return GenerationServiceGrpc.newBlockingStub(channel).withDeadline(deadline);
  }

  /** The calls of AccountService. */
  public AccountServiceGrpc.AccountServiceBlockingStub accounts() {
    return AccountServiceGrpc.newBlockingStub(channel).withDeadline(deadline);
  }

  /** The calls of ModelService. */
  public ModelServiceGrpc.ModelServiceBlockingStub catalog() {
    return ModelServiceGrpc.newBlockingStub(channel).withDeadline(deadline);
  }

  /** The account. As the first call of a service, with a timeout of 10 s, it fails if the address, the key or the certificate is wrong. */
  public Account account() {
    var calls = read("GetAccount", "");
    return Account.of(call(calls, () -> calls.on(accounts()).getAccount(GetAccountRequest.getDefaultInstance())).getAccount());
  }

  /** The models that may be ordered, page by page as they are read. */
  public Iterable<Model> models() {
    var calls = read("ListModels", "");
    return () -> new Pages<ListModelsResponse, Model>(
        token -> page(calls, () -> calls.on(catalog()).listModels(ListModelsRequest.newBuilder().setPageToken(token).build())),
        page -> page.getModelsList().stream().map(Model::of).toList(), ListModelsResponse::getNextPageToken);
  }

  /** A model with its input fields. */
  public Model model(String modelId) {
    var calls = read("GetModel", "");
    return Model.of(call(calls, () -> calls.on(catalog()).getModel(GetModelRequest.newBuilder().setModelId(modelId).build())).getModel());
  }

  /** The price of a render now. */
  public Quote quote(String modelId, Map<String, ?> inputs) {
    var request = QuoteGenerationRequest.newBuilder().setModelId(modelId).setInputsJson(JSON.toJson(inputs)).build();
    var calls = read("QuoteGeneration", "");
    return Quote.of(call(calls, () -> calls.on(generations()).quoteGeneration(request)).getQuote());
  }

  /** Begins an order of one render. The inputs are what the model names them, as JSON has them: texts, numbers, lists, maps. */
  public OrderRequest order(String modelId, Map<String, ?> inputs) {
    return new OrderRequest(this, CreateGenerationRequest.newBuilder().setModelId(modelId).setInputsJson(JSON.toJson(inputs)));
  }

  /** A render as it is now. */
  public Render get(String generationId) {
    var calls = read("GetGeneration", generationId);
    var request = GetGenerationRequest.newBuilder().setGenerationId(generationId).build();
    return new Render(call(calls, () -> calls.on(generations()).getGeneration(request)).getGeneration(), null);
  }

  /** Waits until a render has ended, and returns it. It continues after errors as a watch does. */
  public Render wait(String generationId) {
    return last(watch(generationId));
  }

  /** The last state of a watch. */
  static Render last(Watch<Render> watch) {
    Render last = null;
    for (var render : watch) {
      last = render;
    }
    return last;
  }

  /** Deletes a render and its result for good. A render that does not exist causes no error, so that a repeat is safe. */
  public void delete(String generationId) {
    delete(generationId, false);
  }

  /** Deletes a render that has not ended, too, if it is forced. Whether its price is refunded is not known. */
  public void delete(String generationId, boolean force) {
    var calls = read("DeleteGeneration", generationId);
    var request = DeleteGenerationRequest.newBuilder().setGenerationId(generationId).setAllowMissing(true).setForce(force).build();
    call(calls, () -> calls.on(generations()).deleteGeneration(request));
  }

  /** Watches a render until it has ended, over as many streams as it takes. */
  public Watch<Render> watch(String generationId) {
    return watch(generationId, new WatchOptions());
  }

  /** Watches a render. */
  public Watch<Render> watch(String generationId, WatchOptions options) {
    return watch(generationId, "", options);
  }

  /** Watches the render of an order, whose key is in each error. */
  Watch<Render> watch(String generationId, String key, WatchOptions options) {
    var request = WatchGenerationRequest.newBuilder().setGenerationId(generationId).setUntil(options.until)
        .setKnownEtag(options.knownEtags.getOrDefault(generationId, "")).setHeartbeatInterval(options.heartbeat).build();
    return new GenerationWatch(this, request, key);
  }

  /** Watches every render, new ones as they appear. It has no goal: close it. */
  public Watch<Render> watchMany() {
    return watchMany(List.of());
  }

  /** Watches renders until all have ended, without ids every render. */
  public Watch<Render> watchMany(Collection<String> generationIds) {
    return watchMany(generationIds, new WatchOptions());
  }

  /**
   * Watches the named renders until all have reached the goal, over as many streams as it takes. Without ids it watches every render, new
   * ones as they appear, and has no goal. It repeats no state of the 10,000 renders that changed last.
   */
  public Watch<Render> watchMany(Collection<String> generationIds, WatchOptions options) {
    return new GenerationsWatch(this, WatchGenerationsRequest.newBuilder().addAllGenerationIds(generationIds).setUntil(options.until)
        .putAllKnownEtags(options.knownEtags).setFilter(options.filter.filter).setHeartbeatInterval(options.heartbeat).build());
  }

  /** Lists the renders that a filter lets through, the newest first, page by page as they are read. */
  public Iterable<Render> list(Filter filter) {
    var calls = read("ListGenerations", "");
    var request = ListGenerationsRequest.newBuilder().setFilter(filter.filter).build();
    return () -> new Pages<ListGenerationsResponse, Render>(
        token -> page(calls, () -> calls.on(generations()).listGenerations(request.toBuilder().setPageToken(token).build())),
        page -> page.getGenerationsList().stream().map(generation -> new Render(generation, null)).toList(), ListGenerationsResponse::getNextPageToken);
  }

  /** Counts of orders and their money, a row for each value of the dimensions. */
  public Iterable<UsageRow> usage(UsageQuery query) {
    var calls = read("ListUsage", "");
    var request = query.request.build();
    return () -> new Pages<ListUsageResponse, UsageRow>(
        token -> page(calls, () -> calls.on(accounts()).listUsage(request.toBuilder().setPageToken(token).build())),
        page -> page.getRowsList().stream().map(UsageRow::of).toList(), ListUsageResponse::getNextPageToken);
  }

  /**
   * Fetches the file of a render, which has its name when all bytes are there and right. Until then it is a new file beside it. Of two at
   * once to one name the later one stays, whole.
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
   * Fetches the file of a render into a stream, which has the bytes as they come and is not closed. Where the download breaks off, and
   * nothing tells whether the rest belongs to those bytes, it fails.
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

  /** Ends what the client has connected, and every call of it and of those {@link #withTimeout}. Closing one of those ends nothing. */
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

  /** Makes a call until it has an answer, an error that a repeat can't mend, or no attempts left. */
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

  /** The number of failed attempts of a kind of call after which it ends. */
  int attempts(Attempts.Kind kind) {
    return attempts > 0 ? attempts : kind == Attempts.Kind.READ ? settings.readAttempts() : kind.attempts;
  }

  /** The end of a call that begins now; null if it has none but that of the Context. */
  Deadline deadline(Attempts.Kind kind) {
    if (deadline != null || kind.timeout == null || Context.current().getDeadline() != null) {
      return deadline;
    }
    var timeout = Optional.ofNullable(settings.timeout()).orElse(kind.timeout);
    return Deadline.after(timeout.toMillis(), TimeUnit.MILLISECONDS);
  }

  boolean isClosed() {
    return own != null && own.isShutdown();
  }
}
