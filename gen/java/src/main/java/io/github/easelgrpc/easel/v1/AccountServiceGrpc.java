package io.github.easelgrpc.easel.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * AccountService reads the account behind an API key, and what was spent: as the ledger knows, see
 * GenerationService.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class AccountServiceGrpc {

  private AccountServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "easel.v1.AccountService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.GetAccountRequest,
      io.github.easelgrpc.easel.v1.GetAccountResponse> getGetAccountMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetAccount",
      requestType = io.github.easelgrpc.easel.v1.GetAccountRequest.class,
      responseType = io.github.easelgrpc.easel.v1.GetAccountResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.GetAccountRequest,
      io.github.easelgrpc.easel.v1.GetAccountResponse> getGetAccountMethod() {
    io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.GetAccountRequest, io.github.easelgrpc.easel.v1.GetAccountResponse> getGetAccountMethod;
    if ((getGetAccountMethod = AccountServiceGrpc.getGetAccountMethod) == null) {
      synchronized (AccountServiceGrpc.class) {
        if ((getGetAccountMethod = AccountServiceGrpc.getGetAccountMethod) == null) {
          AccountServiceGrpc.getGetAccountMethod = getGetAccountMethod =
              io.grpc.MethodDescriptor.<io.github.easelgrpc.easel.v1.GetAccountRequest, io.github.easelgrpc.easel.v1.GetAccountResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetAccount"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.GetAccountRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.GetAccountResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AccountServiceMethodDescriptorSupplier("GetAccount"))
              .build();
        }
      }
    }
    return getGetAccountMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.WatchAccountRequest,
      io.github.easelgrpc.easel.v1.WatchAccountResponse> getWatchAccountMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "WatchAccount",
      requestType = io.github.easelgrpc.easel.v1.WatchAccountRequest.class,
      responseType = io.github.easelgrpc.easel.v1.WatchAccountResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.WatchAccountRequest,
      io.github.easelgrpc.easel.v1.WatchAccountResponse> getWatchAccountMethod() {
    io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.WatchAccountRequest, io.github.easelgrpc.easel.v1.WatchAccountResponse> getWatchAccountMethod;
    if ((getWatchAccountMethod = AccountServiceGrpc.getWatchAccountMethod) == null) {
      synchronized (AccountServiceGrpc.class) {
        if ((getWatchAccountMethod = AccountServiceGrpc.getWatchAccountMethod) == null) {
          AccountServiceGrpc.getWatchAccountMethod = getWatchAccountMethod =
              io.grpc.MethodDescriptor.<io.github.easelgrpc.easel.v1.WatchAccountRequest, io.github.easelgrpc.easel.v1.WatchAccountResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "WatchAccount"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.WatchAccountRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.WatchAccountResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AccountServiceMethodDescriptorSupplier("WatchAccount"))
              .build();
        }
      }
    }
    return getWatchAccountMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.ListUsageRequest,
      io.github.easelgrpc.easel.v1.ListUsageResponse> getListUsageMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListUsage",
      requestType = io.github.easelgrpc.easel.v1.ListUsageRequest.class,
      responseType = io.github.easelgrpc.easel.v1.ListUsageResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.ListUsageRequest,
      io.github.easelgrpc.easel.v1.ListUsageResponse> getListUsageMethod() {
    io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.ListUsageRequest, io.github.easelgrpc.easel.v1.ListUsageResponse> getListUsageMethod;
    if ((getListUsageMethod = AccountServiceGrpc.getListUsageMethod) == null) {
      synchronized (AccountServiceGrpc.class) {
        if ((getListUsageMethod = AccountServiceGrpc.getListUsageMethod) == null) {
          AccountServiceGrpc.getListUsageMethod = getListUsageMethod =
              io.grpc.MethodDescriptor.<io.github.easelgrpc.easel.v1.ListUsageRequest, io.github.easelgrpc.easel.v1.ListUsageResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListUsage"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.ListUsageRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.ListUsageResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AccountServiceMethodDescriptorSupplier("ListUsage"))
              .build();
        }
      }
    }
    return getListUsageMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static AccountServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AccountServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AccountServiceStub>() {
        @java.lang.Override
        public AccountServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AccountServiceStub(channel, callOptions);
        }
      };
    return AccountServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static AccountServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AccountServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AccountServiceBlockingV2Stub>() {
        @java.lang.Override
        public AccountServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AccountServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return AccountServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static AccountServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AccountServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AccountServiceBlockingStub>() {
        @java.lang.Override
        public AccountServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AccountServiceBlockingStub(channel, callOptions);
        }
      };
    return AccountServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static AccountServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AccountServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AccountServiceFutureStub>() {
        @java.lang.Override
        public AccountServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AccountServiceFutureStub(channel, callOptions);
        }
      };
    return AccountServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * AccountService reads the account behind an API key, and what was spent: as the ledger knows, see
   * GenerationService.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * GetAccount reads the balance from the catalog, and the caller's budgets from the
     * ledger. It is never served from a cache, and it costs one
     * upstream request.
     * Errors: UNAUTHENTICATED where the API key is missing, wrong or revoked;
     * UNAVAILABLE, with RetryInfo, where the catalog did not answer;
     * RESOURCE_EXHAUSTED, with RetryInfo, where it asked to slow down;
     * UNAVAILABLE with reason LEDGER_UNAVAILABLE and RetryInfo where the ledger does
     * not answer.
     * </pre>
     */
    default void getAccount(io.github.easelgrpc.easel.v1.GetAccountRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.GetAccountResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetAccountMethod(), responseObserver);
    }

    /**
     * <pre>
     * WatchAccount sends the account at once and after each change of its balance, where the
     * caller may see it, or of one of its budgets. It has no goal and goes on until the
     * caller ends it. When the stream is quiet, a heartbeat says why.
     * While anybody watches, the balance is read after orders, refunds and refusals, at
     * most every 10 s and at least once a minute, once for all who watch the same
     * account; budgets are read at most every 5 s. What the catalog's studio or another
     * program spends is therefore seen within a minute. The first update does not wait for a
     * catalog that is slow or away: its account is without the balance then.
     * Upstream trouble never ends a watch: it is told in heartbeats, and so is a held API key
     * that the catalog rejects. The stream ends by:
     * UNAVAILABLE with RetryInfo, after a closing message, where the server goes
     * down or the stream has reached its maximum age;
     * UNAUTHENTICATED where the catalog rejects the caller's own API key, or the server
     * no longer knows the caller's token;
     * RESOURCE_EXHAUSTED where the caller took no message for 30 s.
     * Watch again as after WatchGeneration.
     * Over REST it is a stream of server-sent events (Accept: text/event-stream) or
     * of JSON lines (Accept: application/x-ndjson).
     * </pre>
     */
    default void watchAccount(io.github.easelgrpc.easel.v1.WatchAccountRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.WatchAccountResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWatchAccountMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListUsage counts orders and their money from the ledger, without a request to the
     * catalog. A caller sees the orders of its owner, an operator those of all; with a
     * forwarded API key they are those that this API key has placed through Easel. Rows come
     * in the order of their dimensions, as they are asked for; where no order was placed,
     * there is no row.
     * Errors: UNAVAILABLE with reason LEDGER_UNAVAILABLE and RetryInfo where the ledger does
     * not answer; INVALID_ARGUMENT for a page_token that this list did not give out for the
     * same start_time, end_time, group_by and label_name; UNAUTHENTICATED where the
     * key is missing, wrong or revoked.
     * </pre>
     */
    default void listUsage(io.github.easelgrpc.easel.v1.ListUsageRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.ListUsageResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListUsageMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service AccountService.
   * <pre>
   * AccountService reads the account behind an API key, and what was spent: as the ledger knows, see
   * GenerationService.
   * </pre>
   */
  public static abstract class AccountServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return AccountServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service AccountService.
   * <pre>
   * AccountService reads the account behind an API key, and what was spent: as the ledger knows, see
   * GenerationService.
   * </pre>
   */
  public static final class AccountServiceStub
      extends io.grpc.stub.AbstractAsyncStub<AccountServiceStub> {
    private AccountServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AccountServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AccountServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * GetAccount reads the balance from the catalog, and the caller's budgets from the
     * ledger. It is never served from a cache, and it costs one
     * upstream request.
     * Errors: UNAUTHENTICATED where the API key is missing, wrong or revoked;
     * UNAVAILABLE, with RetryInfo, where the catalog did not answer;
     * RESOURCE_EXHAUSTED, with RetryInfo, where it asked to slow down;
     * UNAVAILABLE with reason LEDGER_UNAVAILABLE and RetryInfo where the ledger does
     * not answer.
     * </pre>
     */
    public void getAccount(io.github.easelgrpc.easel.v1.GetAccountRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.GetAccountResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetAccountMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * WatchAccount sends the account at once and after each change of its balance, where the
     * caller may see it, or of one of its budgets. It has no goal and goes on until the
     * caller ends it. When the stream is quiet, a heartbeat says why.
     * While anybody watches, the balance is read after orders, refunds and refusals, at
     * most every 10 s and at least once a minute, once for all who watch the same
     * account; budgets are read at most every 5 s. What the catalog's studio or another
     * program spends is therefore seen within a minute. The first update does not wait for a
     * catalog that is slow or away: its account is without the balance then.
     * Upstream trouble never ends a watch: it is told in heartbeats, and so is a held API key
     * that the catalog rejects. The stream ends by:
     * UNAVAILABLE with RetryInfo, after a closing message, where the server goes
     * down or the stream has reached its maximum age;
     * UNAUTHENTICATED where the catalog rejects the caller's own API key, or the server
     * no longer knows the caller's token;
     * RESOURCE_EXHAUSTED where the caller took no message for 30 s.
     * Watch again as after WatchGeneration.
     * Over REST it is a stream of server-sent events (Accept: text/event-stream) or
     * of JSON lines (Accept: application/x-ndjson).
     * </pre>
     */
    public void watchAccount(io.github.easelgrpc.easel.v1.WatchAccountRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.WatchAccountResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getWatchAccountMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListUsage counts orders and their money from the ledger, without a request to the
     * catalog. A caller sees the orders of its owner, an operator those of all; with a
     * forwarded API key they are those that this API key has placed through Easel. Rows come
     * in the order of their dimensions, as they are asked for; where no order was placed,
     * there is no row.
     * Errors: UNAVAILABLE with reason LEDGER_UNAVAILABLE and RetryInfo where the ledger does
     * not answer; INVALID_ARGUMENT for a page_token that this list did not give out for the
     * same start_time, end_time, group_by and label_name; UNAUTHENTICATED where the
     * key is missing, wrong or revoked.
     * </pre>
     */
    public void listUsage(io.github.easelgrpc.easel.v1.ListUsageRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.ListUsageResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListUsageMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service AccountService.
   * <pre>
   * AccountService reads the account behind an API key, and what was spent: as the ledger knows, see
   * GenerationService.
   * </pre>
   */
  public static final class AccountServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<AccountServiceBlockingV2Stub> {
    private AccountServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AccountServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AccountServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * GetAccount reads the balance from the catalog, and the caller's budgets from the
     * ledger. It is never served from a cache, and it costs one
     * upstream request.
     * Errors: UNAUTHENTICATED where the API key is missing, wrong or revoked;
     * UNAVAILABLE, with RetryInfo, where the catalog did not answer;
     * RESOURCE_EXHAUSTED, with RetryInfo, where it asked to slow down;
     * UNAVAILABLE with reason LEDGER_UNAVAILABLE and RetryInfo where the ledger does
     * not answer.
     * </pre>
     */
    public io.github.easelgrpc.easel.v1.GetAccountResponse getAccount(io.github.easelgrpc.easel.v1.GetAccountRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetAccountMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * WatchAccount sends the account at once and after each change of its balance, where the
     * caller may see it, or of one of its budgets. It has no goal and goes on until the
     * caller ends it. When the stream is quiet, a heartbeat says why.
     * While anybody watches, the balance is read after orders, refunds and refusals, at
     * most every 10 s and at least once a minute, once for all who watch the same
     * account; budgets are read at most every 5 s. What the catalog's studio or another
     * program spends is therefore seen within a minute. The first update does not wait for a
     * catalog that is slow or away: its account is without the balance then.
     * Upstream trouble never ends a watch: it is told in heartbeats, and so is a held API key
     * that the catalog rejects. The stream ends by:
     * UNAVAILABLE with RetryInfo, after a closing message, where the server goes
     * down or the stream has reached its maximum age;
     * UNAUTHENTICATED where the catalog rejects the caller's own API key, or the server
     * no longer knows the caller's token;
     * RESOURCE_EXHAUSTED where the caller took no message for 30 s.
     * Watch again as after WatchGeneration.
     * Over REST it is a stream of server-sent events (Accept: text/event-stream) or
     * of JSON lines (Accept: application/x-ndjson).
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.github.easelgrpc.easel.v1.WatchAccountResponse>
        watchAccount(io.github.easelgrpc.easel.v1.WatchAccountRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getWatchAccountMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListUsage counts orders and their money from the ledger, without a request to the
     * catalog. A caller sees the orders of its owner, an operator those of all; with a
     * forwarded API key they are those that this API key has placed through Easel. Rows come
     * in the order of their dimensions, as they are asked for; where no order was placed,
     * there is no row.
     * Errors: UNAVAILABLE with reason LEDGER_UNAVAILABLE and RetryInfo where the ledger does
     * not answer; INVALID_ARGUMENT for a page_token that this list did not give out for the
     * same start_time, end_time, group_by and label_name; UNAUTHENTICATED where the
     * key is missing, wrong or revoked.
     * </pre>
     */
    public io.github.easelgrpc.easel.v1.ListUsageResponse listUsage(io.github.easelgrpc.easel.v1.ListUsageRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListUsageMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service AccountService.
   * <pre>
   * AccountService reads the account behind an API key, and what was spent: as the ledger knows, see
   * GenerationService.
   * </pre>
   */
  public static final class AccountServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<AccountServiceBlockingStub> {
    private AccountServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AccountServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AccountServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * GetAccount reads the balance from the catalog, and the caller's budgets from the
     * ledger. It is never served from a cache, and it costs one
     * upstream request.
     * Errors: UNAUTHENTICATED where the API key is missing, wrong or revoked;
     * UNAVAILABLE, with RetryInfo, where the catalog did not answer;
     * RESOURCE_EXHAUSTED, with RetryInfo, where it asked to slow down;
     * UNAVAILABLE with reason LEDGER_UNAVAILABLE and RetryInfo where the ledger does
     * not answer.
     * </pre>
     */
    public io.github.easelgrpc.easel.v1.GetAccountResponse getAccount(io.github.easelgrpc.easel.v1.GetAccountRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetAccountMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * WatchAccount sends the account at once and after each change of its balance, where the
     * caller may see it, or of one of its budgets. It has no goal and goes on until the
     * caller ends it. When the stream is quiet, a heartbeat says why.
     * While anybody watches, the balance is read after orders, refunds and refusals, at
     * most every 10 s and at least once a minute, once for all who watch the same
     * account; budgets are read at most every 5 s. What the catalog's studio or another
     * program spends is therefore seen within a minute. The first update does not wait for a
     * catalog that is slow or away: its account is without the balance then.
     * Upstream trouble never ends a watch: it is told in heartbeats, and so is a held API key
     * that the catalog rejects. The stream ends by:
     * UNAVAILABLE with RetryInfo, after a closing message, where the server goes
     * down or the stream has reached its maximum age;
     * UNAUTHENTICATED where the catalog rejects the caller's own API key, or the server
     * no longer knows the caller's token;
     * RESOURCE_EXHAUSTED where the caller took no message for 30 s.
     * Watch again as after WatchGeneration.
     * Over REST it is a stream of server-sent events (Accept: text/event-stream) or
     * of JSON lines (Accept: application/x-ndjson).
     * </pre>
     */
    public java.util.Iterator<io.github.easelgrpc.easel.v1.WatchAccountResponse> watchAccount(
        io.github.easelgrpc.easel.v1.WatchAccountRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getWatchAccountMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListUsage counts orders and their money from the ledger, without a request to the
     * catalog. A caller sees the orders of its owner, an operator those of all; with a
     * forwarded API key they are those that this API key has placed through Easel. Rows come
     * in the order of their dimensions, as they are asked for; where no order was placed,
     * there is no row.
     * Errors: UNAVAILABLE with reason LEDGER_UNAVAILABLE and RetryInfo where the ledger does
     * not answer; INVALID_ARGUMENT for a page_token that this list did not give out for the
     * same start_time, end_time, group_by and label_name; UNAUTHENTICATED where the
     * key is missing, wrong or revoked.
     * </pre>
     */
    public io.github.easelgrpc.easel.v1.ListUsageResponse listUsage(io.github.easelgrpc.easel.v1.ListUsageRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListUsageMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service AccountService.
   * <pre>
   * AccountService reads the account behind an API key, and what was spent: as the ledger knows, see
   * GenerationService.
   * </pre>
   */
  public static final class AccountServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<AccountServiceFutureStub> {
    private AccountServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AccountServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AccountServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * GetAccount reads the balance from the catalog, and the caller's budgets from the
     * ledger. It is never served from a cache, and it costs one
     * upstream request.
     * Errors: UNAUTHENTICATED where the API key is missing, wrong or revoked;
     * UNAVAILABLE, with RetryInfo, where the catalog did not answer;
     * RESOURCE_EXHAUSTED, with RetryInfo, where it asked to slow down;
     * UNAVAILABLE with reason LEDGER_UNAVAILABLE and RetryInfo where the ledger does
     * not answer.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.easelgrpc.easel.v1.GetAccountResponse> getAccount(
        io.github.easelgrpc.easel.v1.GetAccountRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetAccountMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListUsage counts orders and their money from the ledger, without a request to the
     * catalog. A caller sees the orders of its owner, an operator those of all; with a
     * forwarded API key they are those that this API key has placed through Easel. Rows come
     * in the order of their dimensions, as they are asked for; where no order was placed,
     * there is no row.
     * Errors: UNAVAILABLE with reason LEDGER_UNAVAILABLE and RetryInfo where the ledger does
     * not answer; INVALID_ARGUMENT for a page_token that this list did not give out for the
     * same start_time, end_time, group_by and label_name; UNAUTHENTICATED where the
     * key is missing, wrong or revoked.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.easelgrpc.easel.v1.ListUsageResponse> listUsage(
        io.github.easelgrpc.easel.v1.ListUsageRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListUsageMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_GET_ACCOUNT = 0;
  private static final int METHODID_WATCH_ACCOUNT = 1;
  private static final int METHODID_LIST_USAGE = 2;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final AsyncService serviceImpl;
    private final int methodId;

    MethodHandlers(AsyncService serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_GET_ACCOUNT:
          serviceImpl.getAccount((io.github.easelgrpc.easel.v1.GetAccountRequest) request,
              (io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.GetAccountResponse>) responseObserver);
          break;
        case METHODID_WATCH_ACCOUNT:
          serviceImpl.watchAccount((io.github.easelgrpc.easel.v1.WatchAccountRequest) request,
              (io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.WatchAccountResponse>) responseObserver);
          break;
        case METHODID_LIST_USAGE:
          serviceImpl.listUsage((io.github.easelgrpc.easel.v1.ListUsageRequest) request,
              (io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.ListUsageResponse>) responseObserver);
          break;
        default:
          throw new AssertionError();
      }
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public io.grpc.stub.StreamObserver<Req> invoke(
        io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getGetAccountMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.easelgrpc.easel.v1.GetAccountRequest,
              io.github.easelgrpc.easel.v1.GetAccountResponse>(
                service, METHODID_GET_ACCOUNT)))
        .addMethod(
          getWatchAccountMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.github.easelgrpc.easel.v1.WatchAccountRequest,
              io.github.easelgrpc.easel.v1.WatchAccountResponse>(
                service, METHODID_WATCH_ACCOUNT)))
        .addMethod(
          getListUsageMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.easelgrpc.easel.v1.ListUsageRequest,
              io.github.easelgrpc.easel.v1.ListUsageResponse>(
                service, METHODID_LIST_USAGE)))
        .build();
  }

  private static abstract class AccountServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    AccountServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.github.easelgrpc.easel.v1.AccountServiceProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("AccountService");
    }
  }

  private static final class AccountServiceFileDescriptorSupplier
      extends AccountServiceBaseDescriptorSupplier {
    AccountServiceFileDescriptorSupplier() {}
  }

  private static final class AccountServiceMethodDescriptorSupplier
      extends AccountServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    AccountServiceMethodDescriptorSupplier(java.lang.String methodName) {
      this.methodName = methodName;
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.MethodDescriptor getMethodDescriptor() {
      return getServiceDescriptor().findMethodByName(methodName);
    }
  }

  private static volatile io.grpc.ServiceDescriptor serviceDescriptor;

  public static io.grpc.ServiceDescriptor getServiceDescriptor() {
    io.grpc.ServiceDescriptor result = serviceDescriptor;
    if (result == null) {
      synchronized (AccountServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new AccountServiceFileDescriptorSupplier())
              .addMethod(getGetAccountMethod())
              .addMethod(getWatchAccountMethod())
              .addMethod(getListUsageMethod())
              .build();
        }
      }
    }
    return result;
  }
}
