import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import com.google.protobuf.Message;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RequestInfo;
import com.google.rpc.RetryInfo;
import io.github.easelgrpc.easel.*;
import io.github.easelgrpc.easel.v1.*;
import io.grpc.*;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.parallel.ResourceLock;
import org.junit.jupiter.api.parallel.Resources;

/** Tests of the client against a scripted server. */
@Timeout(300) // seconds; long enough for a busy machine, and reached only if a test hangs
final class EaselTest {
  private static final byte[] WHOLE = "easel".repeat(1000).getBytes();
  private static final Object SILENCE = "silence"; // last element of an answer; the stream then stays silent until the client cancels the call
  private static final Duration HEARTBEAT = Duration.newBuilder().setSeconds(2).build();
  /** A function that returns the response to a request: a list of messages, optionally with an error or SILENCE at the end. */
  interface Answer extends Function<Message, List<?>> {}

  /** A client and its scripted server. */
  private static final class Scripted implements AutoCloseable {
    private final List<Message> requests = new CopyOnWriteArrayList<>();
    private final List<Long> delays = new CopyOnWriteArrayList<>(); // delays of the retries in milliseconds
    private final CountDownLatch left = new CountDownLatch(1); // reaches zero when the client cancels a call before the response is complete
    private final Answer[] answers;
    private final Server server;
    private final Easel easel;

    Scripted(Answer... answers) throws IOException {
      this.answers = answers;
      server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create()).addService(new GenerationServiceGrpc.GenerationServiceImplBase() {
        @Override
        public void createGeneration(CreateGenerationRequest request, StreamObserver<CreateGenerationResponse> to) {
          answer(request, to);
        }

        @Override
        public void watchGeneration(WatchGenerationRequest request, StreamObserver<WatchGenerationResponse> to) {
          answer(request, to);
        }

        @Override
        public void watchGenerations(WatchGenerationsRequest request, StreamObserver<WatchGenerationsResponse> to) {
          answer(request, to);
        }

        @Override
        public void watchEvents(WatchEventsRequest request, StreamObserver<WatchEventsResponse> to) {
          answer(request, to);
        }

        @Override
        public void listGenerations(ListGenerationsRequest request, StreamObserver<ListGenerationsResponse> to) {
          answer(request, to);
        }

        @Override
        public void downloadGeneration(DownloadGenerationRequest request, StreamObserver<DownloadGenerationResponse> to) {
          answer(request, to);
        }
      }).addService(new AccountServiceGrpc.AccountServiceImplBase() {
        @Override
        public void getAccount(GetAccountRequest request, StreamObserver<GetAccountResponse> to) {
          answer(request, to);
        }
      }).build().start();
      easel = client().onRetry((error, delay) -> delays.add(delay.toMillis())).build();
    }

    private EaselBuilder client() {
      return Easel.builder().address("localhost:" + server.getPort()).apiKey("key");
    }

    @SuppressWarnings("unchecked")
    private <T> void answer(Message request, StreamObserver<T> to) {
      ((ServerCallStreamObserver<T>) to).setOnCancelHandler(left::countDown);
      requests.add(request);
      for (var message : answers[Math.min(requests.size(), answers.length) - 1].apply(request)) {
        if (message == SILENCE) {
          return;
        }
        if (message instanceof Exception e) {
          to.onError(e);
          return;
        }
        to.onNext((T) message);
      }
      to.onCompleted();
    }

    @Override
    public void close() {
      easel.close();
      server.shutdownNow();
    }

    private List<Map<String, String>> knownEtags() {
      return requests.stream().map(request -> ((WatchGenerationsRequest) request).getKnownEtagsMap()).toList();
    }
  }

  private static Exception failure(Status.Code code, String reason, int delaySeconds, String outcome) {
    var status = com.google.rpc.Status.newBuilder().setCode(code.value()).setMessage("scripted");
    if (!reason.isEmpty()) {
      status.addDetails(Any.pack(ErrorInfo.newBuilder().setDomain("easel").setReason(reason).putMetadata("order_outcome", outcome).build()));
    }
    if (delaySeconds >= 0) {
      status.addDetails(Any.pack(RetryInfo.newBuilder().setRetryDelay(Duration.newBuilder().setSeconds(delaySeconds)).build()));
    }
    return StatusProto.toStatusRuntimeException(status.build());
  }

  private static Answer failing(Status.Code code, String reason, int delaySeconds) {
    return request -> List.of(failure(code, reason, delaySeconds, "unknown"));
  }

  private static GenerationUpdate.Builder generationUpdate(String id, String etag, State state) {
    return GenerationUpdate.newBuilder().setGeneration(Generation.newBuilder().setGenerationId(id).setEtag(etag).setState(state));
  }

  private static WatchGenerationResponse update(String etag, State state) {
    return WatchGenerationResponse.newBuilder().setUpdate(generationUpdate("gen_1", etag, state)).build();
  }

  private static WatchGenerationsResponse update(String id, String etag, State state) {
    return WatchGenerationsResponse.newBuilder().setUpdate(generationUpdate(id, etag, state)).build();
  }

  private static Exception unavailable() {
    return failure(Status.Code.UNAVAILABLE, "", -1, "");
  }

  /** Returns the first states or events of a watch, at most the given number of them, and closes the watch. */
  private static <T> List<T> yielded(Watch<T> watch, int most) {
    try (watch) {
      var states = new ArrayList<T>();
      for (var left = watch.iterator(); states.size() < most && left.hasNext(); ) {
        states.add(left.next());
      }
      return states;
    }
  }

  private static Order order(Easel easel) {
    return easel.order("studio/haiku", Map.of()).key("key-1").send();
  }

  private static <E extends Exception> E fails(Class<E> type, Callable<?> call) {
    try {
      call.call();
    } catch (Exception e) {
      return type.cast(e);
    }
    throw new AssertionError("the call did not fail");
  }

  private static void equal(Object want, Object got) {
    if (!want.equals(got)) {
      throw new AssertionError("want " + want + ", got " + got);
    }
  }

  @Test
  void interruptEndsACall() throws Exception {
    for (var call : List.<Function<Easel, ?>>of(EaselTest::order, easel -> easel.watch("gen_1").iterator().next())) {
      try (var test = new Scripted(failing(Status.Code.UNAVAILABLE, "LEDGER_UNAVAILABLE", 600))) {
        var ends = new FutureTask<>(() -> fails(UnavailableException.class, () -> call.apply(test.easel)).reason());
        var caller = new Thread(ends);
        caller.start();
        while (test.delays.isEmpty()) {
          Thread.onSpinWait();
        }
        caller.interrupt();
        equal(ErrorReason.LEDGER_UNAVAILABLE, ends.get(30, TimeUnit.SECONDS));
      }
    }
  }

  private static final CreateGenerationResponse PLACED =
      CreateGenerationResponse.newBuilder().setGeneration(Generation.newBuilder().setGenerationId("gen_1").setState(State.STATE_QUEUED)).build();

  private static Answer failing(String reason, String outcome) {
    return request -> List.of(failure(Status.Code.UNAVAILABLE, reason, -1, outcome));
  }

  @Test
  void orderOutcomeCoversAllAttempts() throws IOException {
    var mayExist = failing("LEDGER_UNAVAILABLE", "unknown");
    var thisDidNot = failing("UPSTREAM_UNAVAILABLE", "not_placed_by_this_call");
    var noneDid = failing("UPSTREAM_UNAVAILABLE", "not_placed");
    var end = failing("PRICE_ABOVE_LIMIT", "not_placed_by_this_call");
    var endOfAll = failing("PRICE_ABOVE_LIMIT", "not_placed");
    var wants = Map.of(
        List.of(end), EaselException.OrderOutcome.NOT_PLACED_BY_THIS_CALL,
        List.of(thisDidNot, end), EaselException.OrderOutcome.NOT_PLACED_BY_THIS_CALL,
        List.of(mayExist, end), EaselException.OrderOutcome.UNKNOWN,
        List.of(mayExist, thisDidNot, end), EaselException.OrderOutcome.UNKNOWN,
        List.of(mayExist, endOfAll), EaselException.OrderOutcome.NOT_PLACED,
        List.of(noneDid, failing("PRICE_ABOVE_LIMIT", "")), EaselException.OrderOutcome.UNKNOWN);
    for (var want : wants.entrySet()) {
      try (var test = new Scripted(want.getKey().toArray(new Answer[0]))) {
        equal(Optional.of(want.getValue()), fails(PriceAboveLimitException.class, () -> order(test.easel)).orderOutcome());
        equal(want.getKey().size(), test.requests.size());
      }
    }
  }

  @Test
  void orderSendsItsExpireTime() throws IOException {
    try (var test = new Scripted(request -> List.of(PLACED))) {
      var expire = java.time.Instant.parse("2100-01-01T00:00:00Z");
      test.easel.order("studio/haiku", Map.of()).key("key-1").expire(expire).send();
      equal(expire.getEpochSecond(), ((CreateGenerationRequest) test.requests.get(0)).getExpireTime().getSeconds());
    }
  }

  @Test
  void orderInFlightAtTheTimeoutMayExist() throws IOException {
    try (var test = new Scripted(failing("UPSTREAM_UNAVAILABLE", "not_placed"), request -> List.of(SILENCE))) {
      var error = fails(io.github.easelgrpc.easel.TimeoutException.class, () -> order(test.easel.withTimeout(java.time.Duration.ofSeconds(12))));
      equal(2, test.requests.size());
      equal(Optional.of(EaselException.OrderOutcome.UNKNOWN), error.orderOutcome());
      equal(ErrorReason.UPSTREAM_UNAVAILABLE, error.reason());
      equal(Optional.of("key-1"), error.idempotencyKey());
      equal(false, error.isRetryable());
    }
  }

  @Test
  void errorOfRunContainsTheOrder() throws IOException {
    for (var end : List.of(failing("CALLER_UNKNOWN", ""), (Answer) request -> List.of(SILENCE))) {
      try (var test = new Scripted(request -> List.of(PLACED), end)) {
        var error = fails(EaselException.class, () -> test.easel.withTimeout(java.time.Duration.ofSeconds(12)).order("studio/haiku", Map.of()).run());
        equal(Optional.of(((CreateGenerationRequest) test.requests.get(0)).getIdempotencyKey()), error.idempotencyKey()); // the key that the client created
        equal(Optional.of("gen_1"), error.generationId());
        equal(true, error.getMessage().contains(error.idempotencyKey().get()));
      }
    }
  }

  @Test
  void onRetryIsCalledBeforeEachRetry() throws IOException {
    var away = failing(Status.Code.UNAVAILABLE, "", -1);
    try (var test = new Scripted(away, away, request -> List.of(PLACED))) {
      var calls = new ArrayList<Integer>();
      try (var easel = test.client().onRetry((error, delay) -> calls.add(test.requests.size())).build()) {
        equal("gen_1", order(easel).generationId());
      }
      equal(List.of(1, 2), calls);
    }
  }

  @Test
  void readHasFiveAttempts() throws IOException {
    try (var test = new Scripted(failing(Status.Code.UNAVAILABLE, "", -1))) {
      fails(UnavailableException.class, () -> test.easel.list(new Filter()).iterator().next());
      equal(5, test.requests.size());
      equal(4, test.delays.size());
    }
  }

  @Test
  void delayOfMoreThanAnHourIsNotAwaited() throws IOException {
    for (var call : List.<Function<Easel, ?>>of(EaselTest::order, easel -> easel.watch("gen_1").iterator().next())) {
      for (var seconds : List.of(3601, Integer.MAX_VALUE)) {
        try (var test = new Scripted(failing(Status.Code.UNAVAILABLE, "LEDGER_UNAVAILABLE", seconds))) {
          equal(Optional.of(java.time.Duration.ofSeconds(seconds)), fails(UnavailableException.class, () -> call.apply(test.easel)).retryAfter());
          equal(1, test.requests.size());
        }
      }
    }
  }

  @Test
  void unreadableDetailsAreIgnored() throws IOException {
    var odd = com.google.rpc.Status.newBuilder().setCode(Status.Code.PERMISSION_DENIED.value()).setMessage("scripted")
        .addDetails(Any.pack(ErrorInfo.newBuilder().setDomain("easel").setReason("OF_A_NEWER_SERVER")
            .putMetadata("reset_time", "soon").putMetadata("remaining_cents", "few").putMetadata("order_outcome", "odd").build()))
        .addDetails(Any.pack(RequestInfo.newBuilder().setRequestId("request-1").build()))
        .addDetails(Any.pack(RetryInfo.newBuilder().setRetryDelay(Duration.newBuilder().setSeconds(-1)).build())).build();
    var unreadable = new Metadata();
    unreadable.put(Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER), new byte[] {-1});
    try (var test = new Scripted(request -> List.of(StatusProto.toStatusRuntimeException(odd)),
        request -> List.of(Status.NOT_FOUND.withDescription("scripted").asRuntimeException(unreadable)))) {
      var error = fails(EaselException.class, () -> order(test.easel));
      equal("OF_A_NEWER_SERVER", error.reasonName());
      equal(Optional.of("request-1"), error.requestId());
      equal(List.of(Optional.empty(), Optional.empty(), OptionalLong.empty()), List.of(error.resetTime(), error.retryAfter(), error.remainingCents()));
      equal(List.of(Optional.empty(), Optional.empty()), List.of(error.labelName(), error.labelValue()));
      fails(NotFoundException.class, () -> order(test.easel));
    }
  }

  @Test
  void closingADerivedClientDoesNothing() throws IOException {
    try (var test = new Scripted(request -> List.of(PLACED))) {
      test.easel.withTimeout(java.time.Duration.ofSeconds(30)).close();
      equal("gen_1", order(test.easel).generationId());
    }
  }

  @Test
  void invalidAddressIsRejected() {
    for (var address : List.of("localhost:1", "127.0.0.1:50051", "[::1]:50051", "easel.example:443", "http://localhost", "https://easel.example/",
        "localhost:1/", " localhost:1\n", "HTTP://localhost:1", "Https://easel.example", "LOCALHOST:1")) {
      Easel.builder().address(address).apiKey("").build().close();
    }
    for (var address : List.of("", "localhost", "localhost:0", "localhost:65536", "localhost:port", "ftp://localhost:1", "http://localhost:1/path", "a b:1", ":50051", "::1:50051", "my_service:50051")) {
      equal(true, fails(IllegalArgumentException.class, () -> Easel.builder().address(address).build()).getMessage().contains("\"" + address + "\""));
    }
    for (var address : List.of("https://user:secret-1@easel.example", "user:secret-1@easel.example:1", "https://secret-1@easel.example:0")) {
      equal(false, fails(IllegalArgumentException.class, () -> Easel.builder().address(address).build()).getMessage().contains("secret-1"));
    }
  }

  @Test
  void apiKeyIsNotSentToAnotherHostWithoutTls() {
    var other = Easel.builder().address("http://easel.example:50051").apiKey("secret-1");
    var error = fails(IllegalArgumentException.class, other::build);
    equal(false, error.getMessage().contains("secret-1"));
    other.allowPlaintextKey().build().close();
    Easel.builder().address("easel.example:50051").apiKey("secret-1").build().close(); // TLS
    var clear = CompositeChannelCredentials.create(InsecureChannelCredentials.create(), new CallCredentials() {
      @Override
      public void applyRequestMetadata(CallCredentials.RequestInfo request, Executor executor, MetadataApplier applier) {
        applier.apply(new Metadata());
      }
    });
    for (var credentials : List.of(clear, InsecureChannelCredentials.create(), ChoiceChannelCredentials.create(TlsChannelCredentials.create(), clear))) {
      for (var address : List.of("easel.example:50051", "https://easel.example", "https://localhost")) {
        var own = Easel.builder().address(address).apiKey("secret-1").credentials(credentials);
        equal(false, fails(IllegalArgumentException.class, own::build).getMessage().contains("secret-1"));
      }
    }
    var tls = Easel.builder().apiKey("secret-1").credentials(TlsChannelCredentials.create());
    fails(IllegalArgumentException.class, tls.address("http://localhost")::build);
    tls.address("localhost:1").build().close();
    fails(IllegalArgumentException.class, () -> Easel.builder().address("localhost:1").apiKey("secret-1\nX: y").build());
  }

  @Test
  void emptyKeyIsRejected() throws IOException {
    try (var test = new Scripted(failing(Status.Code.INTERNAL, "", -1))) {
      fails(IllegalArgumentException.class, () -> test.easel.order("studio/haiku", Map.of()).key(""));
      equal(0, test.requests.size());
    }
  }

  @Test
  void eventsContinueAfterTheLastMessage() throws IOException {
    var failed = io.github.easelgrpc.easel.v1.Event.newBuilder().setEventId("a").setGeneration(Generation.newBuilder().setGenerationId("gen_1"));
    var budget = io.github.easelgrpc.easel.v1.Event.newBuilder().setEventId("b").setBudget(Budget.newBuilder().setLimitCents(100));
    var heartbeat = WatchEventsResponse.newBuilder().setHeartbeat(io.github.easelgrpc.easel.v1.Heartbeat.getDefaultInstance()).setResumeToken("t2").build();
    try (var test = new Scripted(
        request -> List.of(WatchEventsResponse.newBuilder().setEvent(failed).setResumeToken("t1").build(), heartbeat, unavailable()),
        request -> List.of(WatchEventsResponse.newBuilder().setEvent(budget).setResumeToken("t3").build()),
        failing(Status.Code.OUT_OF_RANGE, "RESUME_TOKEN_EXPIRED", -1));
        var events = test.easel.events(new EventQuery().resumeToken("t0").start(java.time.Instant.ofEpochSecond(1)).types("easel.generation.failed").owner("studio"))) {
      var left = events.iterator();
      var first = left.next();
      equal(List.of("a", "gen_1", "t1", false), List.of(first.eventId(), first.render().orElseThrow().generationId(), first.resumeToken(), first.budget().isPresent()));
      var second = left.next();
      equal(List.of("b", 100L, "t3", false), List.of(second.eventId(), second.budget().orElseThrow().limitCents(), second.resumeToken(), second.render().isPresent()));
      equal(ErrorReason.RESUME_TOKEN_EXPIRED, fails(InvalidRequestException.class, left::next).reason());
      equal(List.of("t0", "t2", "t3"), test.requests.stream().map(request -> ((WatchEventsRequest) request).getResumeToken()).toList());
      var request = (WatchEventsRequest) test.requests.get(0);
      equal(List.of(1L, List.of("easel.generation.failed"), "studio"), List.of(request.getStartTime().getSeconds(), List.copyOf(request.getFilter().getTypesList()), request.getFilter().getOwner()));
    }
  }

  @Test
  void watchManySendsTheEtagsUpdatedLast() throws IOException {
    var updates = new ArrayList<Object>(IntStream.range(0, 1001).mapToObj(i -> update("gen_" + i, "e1", State.STATE_RUNNING)).toList());
    updates.add(1000, update("gen_0", "e2", State.STATE_RUNNING)); // changes gen_0 again, just before the first update of gen_1000
    updates.add(unavailable());
    try (var test = new Scripted(request -> updates, request -> List.of(update("gen_1", "e2", State.STATE_RUNNING)))) {
      equal(1003, yielded(test.easel.watchMany(), 1003).size());
      var known = new HashMap<String, String>();
      IntStream.range(2, 1001).forEach(i -> known.put("gen_" + i, "e1"));
      known.put("gen_0", "e2");
      equal(List.of(Map.of(), known), test.knownEtags());
    }
  }

  @Test
  void watchManyRepeatsNoneOfThe10000LatestStates() throws IOException {
    var many = IntStream.range(0, 10_001).mapToObj(i -> update("gen_" + i, "e1", State.STATE_RUNNING)).toList();
    var old = update("old", "e0", State.STATE_RUNNING);
    var first = new ArrayList<Object>(List.of(old));
    first.addAll(many.subList(0, 2000));
    first.add(unavailable());
    var second = new ArrayList<Object>(List.of(old));
    second.addAll(many);
    second.addAll(many.subList(1, many.size()));
    second.add(many.get(0)); // the watch yields gen_0 again, because its etag is no longer stored
    try (var test = new Scripted(request -> first, request -> second)) {
      var ids = yielded(test.easel.watchMany(List.of(), new WatchOptions().knownEtags(Map.of("old", "e0"))), 10_002).stream().map(Render::generationId).toList();
      equal(IntStream.concat(IntStream.range(0, 10_001), IntStream.of(0)).mapToObj(i -> "gen_" + i).toList(), ids);
    }
  }

  @Test
  void watchManySendsNoEtagsOfFinishedRenders() throws IOException {
    var finished = List.of(State.STATE_FAILED, State.STATE_SUCCEEDED, State.STATE_REFUNDED, State.STATE_DELETED);
    var all = finished.stream().map(Object::toString).collect(Collectors.toMap(id -> id, id -> "e1"));
    var updates = new ArrayList<Object>(finished.stream().map(state -> update(state.toString(), "e1", state)).toList());
    updates.add(unavailable());
    for (var named : List.of(List.<String>of(), List.of("gen_1"))) {
      try (var test = new Scripted(request -> updates, request -> List.of(update("gen_1", "e1", State.STATE_RUNNING)))) {
        equal(5, yielded(test.easel.watchMany(named), 5).size());
        equal(List.of(Map.of(), named.isEmpty() ? Map.of("STATE_FAILED", "e1") : all), test.knownEtags());
      }
    }
  }

  /** Sends the same update to a watch three times, and then a new update. Only the new update may reset the back-off. */
  private static void checkRepeatIsNoProgress(Function<Easel, Watch<Render>> open, Object update, Object newer, List<String> etags) throws IOException {
    Answer repeat = request -> List.of(update, unavailable());
    try (var test = new Scripted(repeat, repeat, repeat, request -> List.of(newer))) {
      equal(etags, yielded(open.apply(test.easel), etags.size()).stream().map(Render::etag).toList());
      equal(true, test.delays.size() == 3 && test.delays.get(2) >= 1000);
    }
  }

  @Test
  void repeatedStateDoesNotResetTheBackOff() throws IOException {
    checkRepeatIsNoProgress(easel -> easel.watch("gen_1"), update("e1", State.STATE_QUEUED), update("e2", State.STATE_RUNNING), List.of("e1", "e1", "e1", "e2"));
    checkRepeatIsNoProgress(easel -> easel.watchMany(),
        update("gen_1", "e1", State.STATE_QUEUED), update("gen_1", "e2", State.STATE_RUNNING), List.of("e1", "e2"));
  }

  @Test
  @ResourceLock(Resources.GLOBAL) // excludes concurrent tests, because the response must arrive within three seconds
  void rejectedHeartbeatIntervalEndsAWatch() throws IOException {
    Answer refuse = request -> {
      LockSupport.parkNanos(TimeUnit.SECONDS.toNanos(1));
      return List.of(failure(Status.Code.INVALID_ARGUMENT, "", -1, ""));
    };
    for (var millis : List.of(-1000, 0, 200)) {
      var interval = java.time.Duration.ofMillis(millis);
      var sent = Duration.newBuilder().setSeconds(interval.getSeconds()).setNanos(interval.getNano());
      try (var test = new Scripted(refuse, failing(Status.Code.NOT_FOUND, "", -1)); var watch = test.easel.watchMany(List.of(), new WatchOptions().heartbeat(interval))) {
        fails(InvalidRequestException.class, watch.iterator()::next);
        equal(List.of(WatchGenerationsRequest.newBuilder().setUntil(WatchUntil.WATCH_UNTIL_TERMINAL).setFilter(GenerationFilter.getDefaultInstance()).setHeartbeatInterval(sent).build()), test.requests);
      }
    }
  }

  /** Closes a watch while its stream is still open, and checks that the client then cancels the stream. */
  private static void leaves(Function<Easel, Watch<?>> open, Object update) throws Exception {
    try (var test = new Scripted(request -> List.of(update, SILENCE))) {
      try (var watch = open.apply(test.easel)) {
        watch.iterator().next();
        equal(1L, test.left.getCount());
      }
      test.left.await();
      equal(1, test.requests.size());
    }
  }

  @Test
  void watchEndsItsStreamWhenTheCallerLeavesTheLoop() throws Exception {
    leaves(easel -> easel.watch("gen_1"), update("e1", State.STATE_RUNNING));
    leaves(easel -> easel.watchMany(), update("gen_1", "e1", State.STATE_RUNNING));
  }

  @Test
  void abandonedWatchEndsItsStream() throws Exception {
    try (var test = new Scripted(request -> List.of(update("e1", State.STATE_RUNNING), SILENCE))) {
      for (var render : test.easel.watch("gen_1")) {
        equal("e1", render.etag());
        break;
      }
      do {
        System.gc();
      } while (!test.left.await(100, TimeUnit.MILLISECONDS));
    }
  }

  @Test
  void renderHasTheRemainingTimeOfTheHeartbeat() throws IOException {
    var heartbeat = WatchGenerationResponse.newBuilder().setHeartbeat(io.github.easelgrpc.easel.v1.Heartbeat.newBuilder().setTypicalRemaining(HEARTBEAT)).build();
    var newer = WatchGenerationResponse.newBuilder().setUpdate(GenerationUpdate.newBuilder().setGeneration(Generation.newBuilder().setStateValue(77))).build();
    try (var test = new Scripted(request -> List.of(update("e1", State.STATE_RUNNING), heartbeat, newer))) {
      var renders = yielded(test.easel.watch("gen_1"), 2);
      equal(Optional.empty(), renders.get(0).typicalRemaining());
      equal(Optional.of(java.time.Duration.ofSeconds(2)), renders.get(1).typicalRemaining());
      equal(List.of(RenderState.UNKNOWN, 77), List.of(renders.get(1).state(), renders.get(1).stateNumber()));
    }
  }

  @Test
  void anotherThreadClosesAWatchThatWaitsForAMessage() throws Exception {
    try (var test = new Scripted(request -> List.of(update("gen_1", "e1", State.STATE_RUNNING), SILENCE)); var watch = test.easel.watchMany()) {
      watch.iterator().next();
      var more = new FutureTask<>(watch.iterator()::hasNext);
      var reader = new Thread(more);
      reader.start();
      while (reader.getState() != Thread.State.WAITING) { // waits until the reader thread is blocked in hasNext()
        Thread.onSpinWait();
      }
      watch.close();
      equal(false, more.get(30, TimeUnit.SECONDS));
      test.left.await();
      equal(List.of(), test.delays);
      equal(1, test.requests.size());
    }
  }

  @Test
  void anotherThreadClosesAWatchInItsBackOff() throws Exception {
    try (var test = new Scripted(failing(Status.Code.UNAVAILABLE, "", 600)); var watch = test.easel.watchMany()) {
      var more = CompletableFuture.supplyAsync(watch.iterator()::hasNext);
      while (test.delays.isEmpty()) {
        Thread.onSpinWait();
      }
      watch.close();
      equal(false, more.get(30, TimeUnit.SECONDS));
      equal(1, test.requests.size());
    }
  }

  @Test
  void watchClosedWhileItsStreamOpensEndsTheStream() throws Exception {
    try (var test = new Scripted(request -> List.of(SILENCE))) {
      var opening = new AtomicReference<Watch<Render>>();
      var closing = ClientInterceptors.intercept(test.easel.generations().getChannel(), new ClientInterceptor() {
        @Override
        public <Q, R> ClientCall<Q, R> interceptCall(MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
          return new ForwardingClientCall.SimpleForwardingClientCall<Q, R>(next.newCall(method, options)) {
            @Override
            public void halfClose() {
              super.halfClose();
              opening.get().close();
            }
          };
        }
      });
      var watch = Easel.builder().channel(closing).build().watchMany(List.of(), new WatchOptions().heartbeat(java.time.Duration.ofSeconds(60)));
      opening.set(watch);
      equal(false, CompletableFuture.supplyAsync(watch.iterator()::hasNext).get(30, TimeUnit.SECONDS));
    }
  }

  /** Closes the client in its onRetry callback. */
  @Test
  void closedClientMakesNoAttempt() throws Exception {
    for (var call : List.<Function<Easel, ?>>of(EaselTest::order, easel -> easel.watch("gen_1").iterator().next(), easel -> easel.watchMany().iterator().next())) {
      try (var test = new Scripted(failing(Status.Code.UNAVAILABLE, "LEDGER_UNAVAILABLE", -1))) {
        var own = new AtomicReference<Easel>();
        var retries = new AtomicInteger();
        own.set(test.client().onRetry((error, delay) -> {
          retries.incrementAndGet();
          own.get().close();
        }).build());
        equal(false, fails(UnavailableException.class, () -> call.apply(own.get())).isRetryable());
        fails(UnavailableException.class, () -> call.apply(own.get()));
        equal(1, retries.get());
      }
    }
  }

  @Test
  void closingTheClientEndsAWatch() throws Exception {
    try (var test = new Scripted(request -> List.of(update("gen_1", "e1", State.STATE_RUNNING), SILENCE))) {
      var watch = test.easel.watchMany();
      watch.iterator().next();
      test.easel.close();
      fails(UnavailableException.class, watch.iterator()::next);
      equal(1, test.requests.size());
    }
  }

  /**
   * Returns an answer that sends chunks of WHOLE, from the requested offset to the offset {@code to}. The function
   * {@code spoil} alters each chunk. If {@code end} is not null, the call fails with this error after the last chunk.
   */
  private static Answer pieces(int to, UnaryOperator<ContentChunk.Builder> spoil, Exception end) {
    return request -> {
      var messages = new ArrayList<Object>();
      var start = (int) ((DownloadGenerationRequest) request).getReadOffset();
      for (var at = start; at < to; at += 1000) {
        var data = ByteString.copyFrom(WHOLE, at, Math.min(1000, to - at));
        var sum = new CRC32C();
        sum.update(data.asReadOnlyByteBuffer());
        var chunk = ContentChunk.newBuilder().setOffset(at).setData(data).setCrc32C((int) sum.getValue());
        if (at == start) {
          chunk.getInfoBuilder().setEtag("bytes-1").setSizeBytes(WHOLE.length);
        }
        messages.add(DownloadGenerationResponse.newBuilder().setChunk(spoil.apply(chunk)).build());
      }
      if (end != null) {
        messages.add(end);
      }
      return messages;
    };
  }

  /** Without an etag, an interrupted download to a path restarts, and an interrupted download to a stream fails. */
  @Test
  void downloadDoesNotCombineTwoBodies() throws IOException {
    var directory = Files.createTempDirectory("easel");
    var file = directory.resolve("file");
    UnaryOperator<ContentChunk.Builder> bare = chunk -> chunk.clearInfo();
    var answers = new Answer[] {pieces(2000, bare, unavailable()), pieces(WHOLE.length, bare, null)};
    try (var test = new Scripted(answers)) {
      test.easel.download("gen_1", file);
      equal(0L, ((DownloadGenerationRequest) test.requests.get(1)).getReadOffset());
    }
    equal(true, Arrays.equals(WHOLE, Files.readAllBytes(file)));
    try (var test = new Scripted(answers)) {
      var error = fails(UnavailableException.class, () -> test.easel.download("gen_1", new java.io.ByteArrayOutputStream()));
      equal(1, error.getSuppressed().length);
      equal(1, test.requests.size());
    }
    Files.delete(file);
    Files.delete(directory); // fails if the directory contains another file
  }

  @Test
  void downloadDoesNotFollowLinks() throws IOException {
    var directory = Files.createTempDirectory("easel");
    var file = directory.resolve("file");
    var other = Files.writeString(directory.resolve("other"), "mine");
    var link = Files.createSymbolicLink(directory.resolve("file.part"), other);
    try (var test = new Scripted(pieces(WHOLE.length, chunk -> chunk, null))) {
      test.easel.download("gen_1", file);
    }
    equal(true, Arrays.equals(WHOLE, Files.readAllBytes(file)));
    equal("mine", Files.readString(other));
    for (var left : List.of(link, other, file, directory)) {
      Files.delete(left);
    }
  }

  @Test
  void concurrentDownloadsLeaveOneFile() throws Exception {
    var directory = Files.createTempDirectory("easel");
    var file = directory.resolve("file");
    try (var test = new Scripted(pieces(WHOLE.length, chunk -> chunk, null))) {
      var both = Stream.generate(() -> CompletableFuture.runAsync(() -> {
        try {
          test.easel.download("gen_1", file);
        } catch (IOException e) {
          throw new AssertionError(e);
        }
      })).limit(2).toList();
      for (var one : both) {
        one.get(30, TimeUnit.SECONDS);
      }
    }
    equal(true, Arrays.equals(WHOLE, Files.readAllBytes(file)));
    Files.delete(file);
    Files.delete(directory); // fails if the directory contains another file
  }

  @Test
  void downloadRejectsDamagedBytes() throws IOException {
    for (var answer : List.of(
        pieces(WHOLE.length, chunk -> chunk.setCrc32C(chunk.getCrc32C() ^ 1), null),
        pieces(WHOLE.length, chunk -> chunk.setOffset(chunk.getOffset() + 1), null),
        pieces(4990, chunk -> chunk, null),
        pieces(0, chunk -> chunk, null), // the server sends no chunk
        pieces(WHOLE.length, chunk -> chunk.setSummary(ContentSummary.newBuilder().setSizeBytes(1)), null),
        pieces(WHOLE.length, chunk -> chunk.setSummary(ContentSummary.newBuilder().setSha256("0")), null))) {
      var directory = Files.createTempDirectory("easel");
      try (var test = new Scripted(answer)) {
        fails(DamagedException.class, () -> test.easel.download("gen_1", directory.resolve("file")));
        equal(1, test.requests.size());
      }
      Files.delete(directory); // fails if the directory contains a file
    }
  }

  @Test
  void callEndsAfterItsAttempts() throws IOException {
    for (var call : List.<Function<Easel, ?>>of(Easel::account, EaselTest::order, easel -> easel.watch("gen_1").iterator().next())) {
      try (var test = new Scripted(failing(Status.Code.UNAVAILABLE, "", -1))) {
        fails(UnavailableException.class, () -> call.apply(test.easel.withAttempts(2)));
        equal(2, test.requests.size());
      }
    }
  }

  @Test
  void callEndsAfterItsTime() throws IOException {
    try (var test = new Scripted(request -> List.of(SILENCE)); var easel = test.client().timeout(java.time.Duration.ofSeconds(1)).build()) {
      fails(io.github.easelgrpc.easel.TimeoutException.class, easel::account);
      fails(io.github.easelgrpc.easel.TimeoutException.class, () -> order(easel));
      fails(io.github.easelgrpc.easel.TimeoutException.class, () -> test.easel.withTimeout(java.time.Duration.ofSeconds(1)).account());
    }
  }

  @Test
  void errorNamesAnAddressThatFailsOrIsSilent() throws IOException {
    var closed = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
    closed.close();
    try (var silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress()); // the system accepts connections to this port, but no program reads from them
        var toClosed = Easel.builder().address("127.0.0.1:" + closed.getLocalPort()).attempts(1).build();
        var toSilent = Easel.builder().address("127.0.0.1:" + silent.getLocalPort()).attempts(1).build()) {
      equal("UNAVAILABLE: connection to 127.0.0.1:" + closed.getLocalPort() + " failed: Connection refused",
          fails(UnavailableException.class, toClosed::account).getMessage());
      equal("timed out; last error: DEADLINE_EXCEEDED: 127.0.0.1:" + silent.getLocalPort() + " does not respond",
          fails(io.github.easelgrpc.easel.TimeoutException.class, () -> toSilent.withTimeout(java.time.Duration.ofMillis(100)).account()).getMessage());
      equal("UNAVAILABLE: 127.0.0.1:" + silent.getLocalPort() + " does not respond", fails(UnavailableException.class, toSilent::account).getMessage());
    }
  }

  @Test
  void printedOrderHasItsRenderAndKey() throws IOException {
    try (var test = new Scripted(request -> List.of(PLACED))) {
      var order = order(test.easel);
      equal(order.render() + " (idempotency key key-1)", order.toString());
    }
  }

  @Test
  void futureHasTheResultOrTheExceptionOfItsTask() throws Exception {
    try (var test = new Scripted(request -> List.of(PLACED), failing(Status.Code.NOT_FOUND, "", -1))) {
      equal("gen_1", test.easel.async(EaselTest::order).get().generationId());
      equal(NotFoundException.class, fails(ExecutionException.class, () -> test.easel.async(EaselTest::order).get()).getCause().getClass());
    }
  }

  @Test
  void cancellingAFutureEndsItsCalls() throws Exception {
    try (var test = new Scripted(request -> List.of(update("e1", State.STATE_RUNNING), SILENCE))) {
      var watched = new CountDownLatch(1);
      var future = test.easel.async(easel -> {
        for (var render : easel.watch("gen_1")) {
          watched.countDown();
        }
        return null;
      });
      watched.await();
      future.cancel(true);
      test.left.await();
      equal(1, test.requests.size());
    }
  }
}
