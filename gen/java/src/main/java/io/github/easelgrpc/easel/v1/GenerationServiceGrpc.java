package io.github.easelgrpc.easel.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * GenerationService prices, orders, watches, downloads and deletes renders.
 * Orders stand in the server's ledger, with their owner, caller and labels. The ledger is durable,
 * in a file or in PostgreSQL, or it is in memory: see EASEL_LEDGER_URL. A server with a callers file
 * has a durable one. A ledger in memory forgets everything at a stop, and orders that have an
 * outcome after 24 hours, or sooner where there are more than 100,000. An order that was forgotten
 * has no labels, and is in no usage and in no list by owner or label; only those who see every
 * render of the API key find its render. The catalog alone knows its idempotency_key then. So with
 * a ledger in memory order_outcome never says "not_placed".
 * Every error carries google.rpc.ErrorInfo with domain "easel" and a reason.
 * These may come from every call and are not repeated below:
 * UNAUTHENTICATED (no API key, or the catalog rejects it),
 * INVALID_ARGUMENT with reason INVALID_REQUEST and BadRequest (a rule of this
 * contract is broken; the first ten violations are listed),
 * UNAVAILABLE with reason UPSTREAM_UNAVAILABLE and RetryInfo (the catalog did not answer),
 * UNAVAILABLE with reason LEDGER_UNAVAILABLE and RetryInfo (the ledger did not answer),
 * RESOURCE_EXHAUSTED with reason UPSTREAM_RATE_LIMITED and RetryInfo (it asked to slow down),
 * INTERNAL (the catalog answered with something that can't be read).
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class GenerationServiceGrpc {

  private GenerationServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "easel.v1.GenerationService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.QuoteGenerationRequest,
      io.github.easelgrpc.easel.v1.QuoteGenerationResponse> getQuoteGenerationMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "QuoteGeneration",
      requestType = io.github.easelgrpc.easel.v1.QuoteGenerationRequest.class,
      responseType = io.github.easelgrpc.easel.v1.QuoteGenerationResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.QuoteGenerationRequest,
      io.github.easelgrpc.easel.v1.QuoteGenerationResponse> getQuoteGenerationMethod() {
    io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.QuoteGenerationRequest, io.github.easelgrpc.easel.v1.QuoteGenerationResponse> getQuoteGenerationMethod;
    if ((getQuoteGenerationMethod = GenerationServiceGrpc.getQuoteGenerationMethod) == null) {
      synchronized (GenerationServiceGrpc.class) {
        if ((getQuoteGenerationMethod = GenerationServiceGrpc.getQuoteGenerationMethod) == null) {
          GenerationServiceGrpc.getQuoteGenerationMethod = getQuoteGenerationMethod =
              io.grpc.MethodDescriptor.<io.github.easelgrpc.easel.v1.QuoteGenerationRequest, io.github.easelgrpc.easel.v1.QuoteGenerationResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "QuoteGeneration"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.QuoteGenerationRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.QuoteGenerationResponse.getDefaultInstance()))
              .setSchemaDescriptor(new GenerationServiceMethodDescriptorSupplier("QuoteGeneration"))
              .build();
        }
      }
    }
    return getQuoteGenerationMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.CreateGenerationRequest,
      io.github.easelgrpc.easel.v1.CreateGenerationResponse> getCreateGenerationMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CreateGeneration",
      requestType = io.github.easelgrpc.easel.v1.CreateGenerationRequest.class,
      responseType = io.github.easelgrpc.easel.v1.CreateGenerationResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.CreateGenerationRequest,
      io.github.easelgrpc.easel.v1.CreateGenerationResponse> getCreateGenerationMethod() {
    io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.CreateGenerationRequest, io.github.easelgrpc.easel.v1.CreateGenerationResponse> getCreateGenerationMethod;
    if ((getCreateGenerationMethod = GenerationServiceGrpc.getCreateGenerationMethod) == null) {
      synchronized (GenerationServiceGrpc.class) {
        if ((getCreateGenerationMethod = GenerationServiceGrpc.getCreateGenerationMethod) == null) {
          GenerationServiceGrpc.getCreateGenerationMethod = getCreateGenerationMethod =
              io.grpc.MethodDescriptor.<io.github.easelgrpc.easel.v1.CreateGenerationRequest, io.github.easelgrpc.easel.v1.CreateGenerationResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CreateGeneration"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.CreateGenerationRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.CreateGenerationResponse.getDefaultInstance()))
              .setSchemaDescriptor(new GenerationServiceMethodDescriptorSupplier("CreateGeneration"))
              .build();
        }
      }
    }
    return getCreateGenerationMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.GetGenerationRequest,
      io.github.easelgrpc.easel.v1.GetGenerationResponse> getGetGenerationMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetGeneration",
      requestType = io.github.easelgrpc.easel.v1.GetGenerationRequest.class,
      responseType = io.github.easelgrpc.easel.v1.GetGenerationResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.GetGenerationRequest,
      io.github.easelgrpc.easel.v1.GetGenerationResponse> getGetGenerationMethod() {
    io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.GetGenerationRequest, io.github.easelgrpc.easel.v1.GetGenerationResponse> getGetGenerationMethod;
    if ((getGetGenerationMethod = GenerationServiceGrpc.getGetGenerationMethod) == null) {
      synchronized (GenerationServiceGrpc.class) {
        if ((getGetGenerationMethod = GenerationServiceGrpc.getGetGenerationMethod) == null) {
          GenerationServiceGrpc.getGetGenerationMethod = getGetGenerationMethod =
              io.grpc.MethodDescriptor.<io.github.easelgrpc.easel.v1.GetGenerationRequest, io.github.easelgrpc.easel.v1.GetGenerationResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetGeneration"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.GetGenerationRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.GetGenerationResponse.getDefaultInstance()))
              .setSchemaDescriptor(new GenerationServiceMethodDescriptorSupplier("GetGeneration"))
              .build();
        }
      }
    }
    return getGetGenerationMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.ListGenerationsRequest,
      io.github.easelgrpc.easel.v1.ListGenerationsResponse> getListGenerationsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListGenerations",
      requestType = io.github.easelgrpc.easel.v1.ListGenerationsRequest.class,
      responseType = io.github.easelgrpc.easel.v1.ListGenerationsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.ListGenerationsRequest,
      io.github.easelgrpc.easel.v1.ListGenerationsResponse> getListGenerationsMethod() {
    io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.ListGenerationsRequest, io.github.easelgrpc.easel.v1.ListGenerationsResponse> getListGenerationsMethod;
    if ((getListGenerationsMethod = GenerationServiceGrpc.getListGenerationsMethod) == null) {
      synchronized (GenerationServiceGrpc.class) {
        if ((getListGenerationsMethod = GenerationServiceGrpc.getListGenerationsMethod) == null) {
          GenerationServiceGrpc.getListGenerationsMethod = getListGenerationsMethod =
              io.grpc.MethodDescriptor.<io.github.easelgrpc.easel.v1.ListGenerationsRequest, io.github.easelgrpc.easel.v1.ListGenerationsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListGenerations"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.ListGenerationsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.ListGenerationsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new GenerationServiceMethodDescriptorSupplier("ListGenerations"))
              .build();
        }
      }
    }
    return getListGenerationsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.WaitGenerationRequest,
      io.github.easelgrpc.easel.v1.WaitGenerationResponse> getWaitGenerationMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "WaitGeneration",
      requestType = io.github.easelgrpc.easel.v1.WaitGenerationRequest.class,
      responseType = io.github.easelgrpc.easel.v1.WaitGenerationResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.WaitGenerationRequest,
      io.github.easelgrpc.easel.v1.WaitGenerationResponse> getWaitGenerationMethod() {
    io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.WaitGenerationRequest, io.github.easelgrpc.easel.v1.WaitGenerationResponse> getWaitGenerationMethod;
    if ((getWaitGenerationMethod = GenerationServiceGrpc.getWaitGenerationMethod) == null) {
      synchronized (GenerationServiceGrpc.class) {
        if ((getWaitGenerationMethod = GenerationServiceGrpc.getWaitGenerationMethod) == null) {
          GenerationServiceGrpc.getWaitGenerationMethod = getWaitGenerationMethod =
              io.grpc.MethodDescriptor.<io.github.easelgrpc.easel.v1.WaitGenerationRequest, io.github.easelgrpc.easel.v1.WaitGenerationResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "WaitGeneration"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.WaitGenerationRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.WaitGenerationResponse.getDefaultInstance()))
              .setSchemaDescriptor(new GenerationServiceMethodDescriptorSupplier("WaitGeneration"))
              .build();
        }
      }
    }
    return getWaitGenerationMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.WatchGenerationRequest,
      io.github.easelgrpc.easel.v1.WatchGenerationResponse> getWatchGenerationMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "WatchGeneration",
      requestType = io.github.easelgrpc.easel.v1.WatchGenerationRequest.class,
      responseType = io.github.easelgrpc.easel.v1.WatchGenerationResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.WatchGenerationRequest,
      io.github.easelgrpc.easel.v1.WatchGenerationResponse> getWatchGenerationMethod() {
    io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.WatchGenerationRequest, io.github.easelgrpc.easel.v1.WatchGenerationResponse> getWatchGenerationMethod;
    if ((getWatchGenerationMethod = GenerationServiceGrpc.getWatchGenerationMethod) == null) {
      synchronized (GenerationServiceGrpc.class) {
        if ((getWatchGenerationMethod = GenerationServiceGrpc.getWatchGenerationMethod) == null) {
          GenerationServiceGrpc.getWatchGenerationMethod = getWatchGenerationMethod =
              io.grpc.MethodDescriptor.<io.github.easelgrpc.easel.v1.WatchGenerationRequest, io.github.easelgrpc.easel.v1.WatchGenerationResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "WatchGeneration"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.WatchGenerationRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.WatchGenerationResponse.getDefaultInstance()))
              .setSchemaDescriptor(new GenerationServiceMethodDescriptorSupplier("WatchGeneration"))
              .build();
        }
      }
    }
    return getWatchGenerationMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.WatchGenerationsRequest,
      io.github.easelgrpc.easel.v1.WatchGenerationsResponse> getWatchGenerationsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "WatchGenerations",
      requestType = io.github.easelgrpc.easel.v1.WatchGenerationsRequest.class,
      responseType = io.github.easelgrpc.easel.v1.WatchGenerationsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.WatchGenerationsRequest,
      io.github.easelgrpc.easel.v1.WatchGenerationsResponse> getWatchGenerationsMethod() {
    io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.WatchGenerationsRequest, io.github.easelgrpc.easel.v1.WatchGenerationsResponse> getWatchGenerationsMethod;
    if ((getWatchGenerationsMethod = GenerationServiceGrpc.getWatchGenerationsMethod) == null) {
      synchronized (GenerationServiceGrpc.class) {
        if ((getWatchGenerationsMethod = GenerationServiceGrpc.getWatchGenerationsMethod) == null) {
          GenerationServiceGrpc.getWatchGenerationsMethod = getWatchGenerationsMethod =
              io.grpc.MethodDescriptor.<io.github.easelgrpc.easel.v1.WatchGenerationsRequest, io.github.easelgrpc.easel.v1.WatchGenerationsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "WatchGenerations"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.WatchGenerationsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.WatchGenerationsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new GenerationServiceMethodDescriptorSupplier("WatchGenerations"))
              .build();
        }
      }
    }
    return getWatchGenerationsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.DownloadGenerationRequest,
      io.github.easelgrpc.easel.v1.DownloadGenerationResponse> getDownloadGenerationMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DownloadGeneration",
      requestType = io.github.easelgrpc.easel.v1.DownloadGenerationRequest.class,
      responseType = io.github.easelgrpc.easel.v1.DownloadGenerationResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.DownloadGenerationRequest,
      io.github.easelgrpc.easel.v1.DownloadGenerationResponse> getDownloadGenerationMethod() {
    io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.DownloadGenerationRequest, io.github.easelgrpc.easel.v1.DownloadGenerationResponse> getDownloadGenerationMethod;
    if ((getDownloadGenerationMethod = GenerationServiceGrpc.getDownloadGenerationMethod) == null) {
      synchronized (GenerationServiceGrpc.class) {
        if ((getDownloadGenerationMethod = GenerationServiceGrpc.getDownloadGenerationMethod) == null) {
          GenerationServiceGrpc.getDownloadGenerationMethod = getDownloadGenerationMethod =
              io.grpc.MethodDescriptor.<io.github.easelgrpc.easel.v1.DownloadGenerationRequest, io.github.easelgrpc.easel.v1.DownloadGenerationResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DownloadGeneration"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.DownloadGenerationRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.DownloadGenerationResponse.getDefaultInstance()))
              .setSchemaDescriptor(new GenerationServiceMethodDescriptorSupplier("DownloadGeneration"))
              .build();
        }
      }
    }
    return getDownloadGenerationMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.DeleteGenerationRequest,
      io.github.easelgrpc.easel.v1.DeleteGenerationResponse> getDeleteGenerationMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DeleteGeneration",
      requestType = io.github.easelgrpc.easel.v1.DeleteGenerationRequest.class,
      responseType = io.github.easelgrpc.easel.v1.DeleteGenerationResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.DeleteGenerationRequest,
      io.github.easelgrpc.easel.v1.DeleteGenerationResponse> getDeleteGenerationMethod() {
    io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.DeleteGenerationRequest, io.github.easelgrpc.easel.v1.DeleteGenerationResponse> getDeleteGenerationMethod;
    if ((getDeleteGenerationMethod = GenerationServiceGrpc.getDeleteGenerationMethod) == null) {
      synchronized (GenerationServiceGrpc.class) {
        if ((getDeleteGenerationMethod = GenerationServiceGrpc.getDeleteGenerationMethod) == null) {
          GenerationServiceGrpc.getDeleteGenerationMethod = getDeleteGenerationMethod =
              io.grpc.MethodDescriptor.<io.github.easelgrpc.easel.v1.DeleteGenerationRequest, io.github.easelgrpc.easel.v1.DeleteGenerationResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DeleteGeneration"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.DeleteGenerationRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.DeleteGenerationResponse.getDefaultInstance()))
              .setSchemaDescriptor(new GenerationServiceMethodDescriptorSupplier("DeleteGeneration"))
              .build();
        }
      }
    }
    return getDeleteGenerationMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static GenerationServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<GenerationServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<GenerationServiceStub>() {
        @java.lang.Override
        public GenerationServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new GenerationServiceStub(channel, callOptions);
        }
      };
    return GenerationServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static GenerationServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<GenerationServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<GenerationServiceBlockingV2Stub>() {
        @java.lang.Override
        public GenerationServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new GenerationServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return GenerationServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static GenerationServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<GenerationServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<GenerationServiceBlockingStub>() {
        @java.lang.Override
        public GenerationServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new GenerationServiceBlockingStub(channel, callOptions);
        }
      };
    return GenerationServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static GenerationServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<GenerationServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<GenerationServiceFutureStub>() {
        @java.lang.Override
        public GenerationServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new GenerationServiceFutureStub(channel, callOptions);
        }
      };
    return GenerationServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * GenerationService prices, orders, watches, downloads and deletes renders.
   * Orders stand in the server's ledger, with their owner, caller and labels. The ledger is durable,
   * in a file or in PostgreSQL, or it is in memory: see EASEL_LEDGER_URL. A server with a callers file
   * has a durable one. A ledger in memory forgets everything at a stop, and orders that have an
   * outcome after 24 hours, or sooner where there are more than 100,000. An order that was forgotten
   * has no labels, and is in no usage and in no list by owner or label; only those who see every
   * render of the API key find its render. The catalog alone knows its idempotency_key then. So with
   * a ledger in memory order_outcome never says "not_placed".
   * Every error carries google.rpc.ErrorInfo with domain "easel" and a reason.
   * These may come from every call and are not repeated below:
   * UNAUTHENTICATED (no API key, or the catalog rejects it),
   * INVALID_ARGUMENT with reason INVALID_REQUEST and BadRequest (a rule of this
   * contract is broken; the first ten violations are listed),
   * UNAVAILABLE with reason UPSTREAM_UNAVAILABLE and RetryInfo (the catalog did not answer),
   * UNAVAILABLE with reason LEDGER_UNAVAILABLE and RetryInfo (the ledger did not answer),
   * RESOURCE_EXHAUSTED with reason UPSTREAM_RATE_LIMITED and RetryInfo (it asked to slow down),
   * INTERNAL (the catalog answered with something that can't be read).
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * QuoteGeneration prices inputs. Nothing is started and nothing is charged.
     * Errors: INVALID_ARGUMENT with reason UPSTREAM_INVALID_INPUT, and in
     * BadRequest the field `inputs.&lt;name&gt;` or `model_id` that the catalog refuses.
     * </pre>
     */
    default void quoteGeneration(io.github.easelgrpc.easel.v1.QuoteGenerationRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.QuoteGenerationResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getQuoteGenerationMethod(), responseObserver);
    }

    /**
     * <pre>
     * CreateGeneration places a paid order. The price is deducted at once, and the
     * render goes on in the background: watch it with WatchGeneration.
     * One idempotency_key is one order. After any error, timeout or crash, send the
     * same request with the same idempotency_key again, within 12 hours and under the
     * same API key: it is not charged twice. Easel itself resends an order only with
     * its idempotency_key, the same bytes and the same API key.
     * Once an order may have left for the catalog, Easel goes on for the time that the
     * caller gave it, even if the caller goes away; then for at most a minute.
     * An attempt that fails is repeated until the caller's deadline, which hears of none. A
     * caller that would rather tell somebody sends the metadata easel-failure-timeout, such
     * as "1.5s": after that time the call ends as soon as an attempt has failed, with what the
     * catalog said and RetryInfo. Attempts go on, and the same request joins them again.
     * Every error says in the metadata of ErrorInfo what it knows of the order, as
     * order_outcome:
     * "unknown": the order may exist; send the same idempotency_key again, under the same API key. A refusal
     * by the catalog is one too, whatever its status: some catalogs look at money,
     * models or inputs before they look at the idempotency_key, and other servers
     * may have sent it before.
     * "not_placed_by_this_call": this call has sent nothing to the catalog; an earlier
     * one may have. Never take another idempotency_key for an order that may exist.
     * "not_placed": there is no order under this idempotency_key, as a durable ledger knows. Never
     * said where callers forward their own API keys.
     * An error without it is as "unknown": the client's own library makes such ones, and
     * the server's that of a message above its size limit, of which nothing was sent.
     * Errors: INVALID_ARGUMENT as for QuoteGeneration;
     * FAILED_PRECONDITION with reason INSUFFICIENT_BALANCE (after a top-up the same
     * idempotency_key may be sent again) or PRICE_ABOVE_LIMIT (this call has sent nothing);
     * RESOURCE_EXHAUSTED with reason API_KEY_DAILY_CAP and no RetryInfo;
     * ALREADY_EXISTS with reason IDEMPOTENCY_KEY_REUSED where the idempotency_key is
     * known to stand for another order, or, with a forwarded API key, for one of unknown
     * outcome whose inputs were other bytes: only the first bytes are ever sent;
     * ABORTED with reason SUBMISSION_IN_PROGRESS and RetryInfo where the catalog is
     * still busy with this idempotency_key;
     * RESOURCE_EXHAUSTED with reason BUDGET_EXCEEDED, QuotaFailure and no RetryInfo where a budget
     * of the caller's team has no room for the price: the metadata has window ("day" or
     * "month"), reset_time (when the next one begins, RFC 3339), remaining_cents and
     * price_cents;
     * PERMISSION_DENIED with reason MODEL_NOT_ALLOWED where the caller's team may not order
     * this model;
     * UNAVAILABLE with reason LEDGER_UNAVAILABLE: this call has sent nothing;
     * UNAVAILABLE with reason SUBMISSION_OUTCOME_UNKNOWN and RetryInfo where it is not
     * known whether the order was taken: send the same idempotency_key again. Without
     * RetryInfo it is too late for that (12 hours after the first attempt, unless the
     * operator has set another time): look at the account before you order again.
     * </pre>
     */
    default void createGeneration(io.github.easelgrpc.easel.v1.CreateGenerationRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.CreateGenerationResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCreateGenerationMethod(), responseObserver);
    }

    /**
     * <pre>
     * GetGeneration reads one render. Where the render is being watched under the same
     * API key, the answer comes from the watch and costs the catalog nothing; its age is
     * seen in observe_time, and max_staleness bounds it. While the catalog does not
     * answer, it is the state of before.
     * Errors: NOT_FOUND with reason GENERATION_NOT_FOUND and ResourceInfo. A render
     * of another API key is not found either.
     * </pre>
     */
    default void getGeneration(io.github.easelgrpc.easel.v1.GetGenerationRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.GetGenerationResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetGenerationMethod(), responseObserver);
    }

    /**
     * <pre>
     * ListGenerations lists the renders that were ordered through Easel: the caller's own, an
     * operator's list those of all owners, and with a forwarded API key those of that API key. They
     * go back to the first, the newest order first, each in the state that the ledger has recorded;
     * result and inputs come where the catalog's list, which is up to a second old, has the render. Where
     * the catalog does not answer, those are missing and the list is not. A deleted
     * render comes only where the filter asks for STATE_DELETED. The lists of those who see
     * everything of an API key (an operator, its forwarder, and callers of a server on which
     * nobody has a name), without labels in the filter, end with what the
     * catalog lists and the ledger does not know as theirs, in the catalog's order, without an
     * owner; where the catalog does not answer then, those last pages fail as every read does.
     * Errors: INVALID_ARGUMENT for a page_token that this list did not give out for the
     * same filter, and for filter.owner from a caller that is no operator.
     * </pre>
     */
    default void listGenerations(io.github.easelgrpc.easel.v1.ListGenerationsRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.ListGenerationsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListGenerationsMethod(), responseObserver);
    }

    /**
     * <pre>
     * WaitGeneration answers when the render has reached the goal, or when the time
     * has run out: then with the newest state, and OK. Look at terminal.
     * Upstream trouble does not end a wait. Waits and watches of one render under one
     * API key share its polls. A caller that stays longer than a minute should watch
     * instead.
     * Errors: NOT_FOUND as for GetGeneration.
     * </pre>
     */
    default void waitGeneration(io.github.easelgrpc.easel.v1.WaitGenerationRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.WaitGenerationResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWaitGenerationMethod(), responseObserver);
    }

    /**
     * <pre>
     * WatchGeneration sends the newest state of a render at once and after each
     * change, until the goal is reached: then the stream ends with OK, and OK means
     * nothing else. Changes that come faster than the caller reads are merged; the
     * last one is never lost. When the stream is quiet, a heartbeat says why.
     * Upstream trouble never ends a watch: it is told in heartbeats. The stream ends
     * without OK only by:
     * NOT_FOUND before the first message;
     * UNAVAILABLE with RetryInfo, after a closing message, where the server goes
     * down or the stream has reached its maximum age;
     * UNAUTHENTICATED where the catalog rejects the caller's own API key, or the server
     * no longer knows the caller's token;
     * RESOURCE_EXHAUSTED where the caller took no message for 30 s.
     * Watch again after every error but NOT_FOUND, UNAUTHENTICATED, PERMISSION_DENIED,
     * INVALID_ARGUMENT, FAILED_PRECONDITION and UNIMPLEMENTED, which a repeat cannot mend:
     * after the time that closing or RetryInfo names, else with back-off, and with the last
     * etag as known_etag. Ending a watch never touches the render or the money.
     * Over REST it is a stream of server-sent events (Accept: text/event-stream) or
     * of JSON lines (Accept: application/x-ndjson).
     * </pre>
     */
    default void watchGeneration(io.github.easelgrpc.easel.v1.WatchGenerationRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.WatchGenerationResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWatchGenerationMethod(), responseObserver);
    }

    /**
     * <pre>
     * WatchGenerations watches many renders on one stream: those named, or every one
     * that the catalog lists for the API key, new ones as they appear. Each behaves as in
     * WatchGeneration. With named renders the stream ends with OK when all of them
     * have reached the goal; without, it has no goal and goes on, and each render is
     * followed until no money can move any more. What others delete is only seen
     * there while the render is not terminal: the catalog's list shows recent renders,
     * and one that is missing need not be gone.
     * An id that the catalog does not know does not end the stream: it is reported
     * with STATE_DELETED. The stream ends without OK, and is watched again, as
     * WatchGeneration, with known_etags.
     * Errors: INVALID_ARGUMENT for filter.owner from a caller that is no operator.
     * Over REST, where headers are short, many ids and etags go into the body of a POST.
     * </pre>
     */
    default void watchGenerations(io.github.easelgrpc.easel.v1.WatchGenerationsRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.WatchGenerationsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWatchGenerationsMethod(), responseObserver);
    }

    /**
     * <pre>
     * DownloadGeneration streams the bytes of the result in chunks. The first chunk
     * has info; the last one has summary where the whole result was read. A
     * download that breaks off upstream is resumed without the caller seeing it.
     * Bytes arrive whole or the stream ends with an error: OK means that every byte
     * asked for was sent.
     * Where the operator keeps copies of results, a result is copied once, and then
     * read from the copy: also while the catalog is down, and after it has deleted the
     * render. A text result is there as a file of text then. The first reader may wait a
     * few seconds for the copy. DeleteGeneration deletes the copy too, unless the
     * operator keeps those of the team.
     * Errors: FAILED_PRECONDITION with reason CONTENT_NOT_READY and RetryInfo (not
     * finished; see wait_timeout) or NO_CONTENT (the render has or will have no file;
     * its state is in the metadata);
     * OUT_OF_RANGE with reason READ_OFFSET_OUT_OF_RANGE;
     * UNAVAILABLE with reason CONTENT_INTERRUPTED, and the offset to go on from in
     * the metadata next_offset; DATA_LOSS with reason CONTENT_CHANGED where the
     * bytes are not those of etag, or changed while they were read;
     * RESOURCE_EXHAUSTED where the caller took no byte for two minutes.
     * Over REST it is the bare bytes, with Range, ETag and Content-Length; where
     * bytes fail after the headers, the connection is aborted.
     * </pre>
     */
    default void downloadGeneration(io.github.easelgrpc.easel.v1.DownloadGenerationRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.DownloadGenerationResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDownloadGenerationMethod(), responseObserver);
    }

    /**
     * <pre>
     * DeleteGeneration deletes a render and its result from the catalog for good.
     * Watchers of it get STATE_DELETED and end with OK. An operator may delete those of
     * all owners, which the server's audit has.
     * Errors: FAILED_PRECONDITION with reason GENERATION_ACTIVE where the render is
     * not terminal and force is not set; NOT_FOUND unless allow_missing is set.
     * </pre>
     */
    default void deleteGeneration(io.github.easelgrpc.easel.v1.DeleteGenerationRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.DeleteGenerationResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDeleteGenerationMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service GenerationService.
   * <pre>
   * GenerationService prices, orders, watches, downloads and deletes renders.
   * Orders stand in the server's ledger, with their owner, caller and labels. The ledger is durable,
   * in a file or in PostgreSQL, or it is in memory: see EASEL_LEDGER_URL. A server with a callers file
   * has a durable one. A ledger in memory forgets everything at a stop, and orders that have an
   * outcome after 24 hours, or sooner where there are more than 100,000. An order that was forgotten
   * has no labels, and is in no usage and in no list by owner or label; only those who see every
   * render of the API key find its render. The catalog alone knows its idempotency_key then. So with
   * a ledger in memory order_outcome never says "not_placed".
   * Every error carries google.rpc.ErrorInfo with domain "easel" and a reason.
   * These may come from every call and are not repeated below:
   * UNAUTHENTICATED (no API key, or the catalog rejects it),
   * INVALID_ARGUMENT with reason INVALID_REQUEST and BadRequest (a rule of this
   * contract is broken; the first ten violations are listed),
   * UNAVAILABLE with reason UPSTREAM_UNAVAILABLE and RetryInfo (the catalog did not answer),
   * UNAVAILABLE with reason LEDGER_UNAVAILABLE and RetryInfo (the ledger did not answer),
   * RESOURCE_EXHAUSTED with reason UPSTREAM_RATE_LIMITED and RetryInfo (it asked to slow down),
   * INTERNAL (the catalog answered with something that can't be read).
   * </pre>
   */
  public static abstract class GenerationServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return GenerationServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service GenerationService.
   * <pre>
   * GenerationService prices, orders, watches, downloads and deletes renders.
   * Orders stand in the server's ledger, with their owner, caller and labels. The ledger is durable,
   * in a file or in PostgreSQL, or it is in memory: see EASEL_LEDGER_URL. A server with a callers file
   * has a durable one. A ledger in memory forgets everything at a stop, and orders that have an
   * outcome after 24 hours, or sooner where there are more than 100,000. An order that was forgotten
   * has no labels, and is in no usage and in no list by owner or label; only those who see every
   * render of the API key find its render. The catalog alone knows its idempotency_key then. So with
   * a ledger in memory order_outcome never says "not_placed".
   * Every error carries google.rpc.ErrorInfo with domain "easel" and a reason.
   * These may come from every call and are not repeated below:
   * UNAUTHENTICATED (no API key, or the catalog rejects it),
   * INVALID_ARGUMENT with reason INVALID_REQUEST and BadRequest (a rule of this
   * contract is broken; the first ten violations are listed),
   * UNAVAILABLE with reason UPSTREAM_UNAVAILABLE and RetryInfo (the catalog did not answer),
   * UNAVAILABLE with reason LEDGER_UNAVAILABLE and RetryInfo (the ledger did not answer),
   * RESOURCE_EXHAUSTED with reason UPSTREAM_RATE_LIMITED and RetryInfo (it asked to slow down),
   * INTERNAL (the catalog answered with something that can't be read).
   * </pre>
   */
  public static final class GenerationServiceStub
      extends io.grpc.stub.AbstractAsyncStub<GenerationServiceStub> {
    private GenerationServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected GenerationServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new GenerationServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * QuoteGeneration prices inputs. Nothing is started and nothing is charged.
     * Errors: INVALID_ARGUMENT with reason UPSTREAM_INVALID_INPUT, and in
     * BadRequest the field `inputs.&lt;name&gt;` or `model_id` that the catalog refuses.
     * </pre>
     */
    public void quoteGeneration(io.github.easelgrpc.easel.v1.QuoteGenerationRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.QuoteGenerationResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getQuoteGenerationMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * CreateGeneration places a paid order. The price is deducted at once, and the
     * render goes on in the background: watch it with WatchGeneration.
     * One idempotency_key is one order. After any error, timeout or crash, send the
     * same request with the same idempotency_key again, within 12 hours and under the
     * same API key: it is not charged twice. Easel itself resends an order only with
     * its idempotency_key, the same bytes and the same API key.
     * Once an order may have left for the catalog, Easel goes on for the time that the
     * caller gave it, even if the caller goes away; then for at most a minute.
     * An attempt that fails is repeated until the caller's deadline, which hears of none. A
     * caller that would rather tell somebody sends the metadata easel-failure-timeout, such
     * as "1.5s": after that time the call ends as soon as an attempt has failed, with what the
     * catalog said and RetryInfo. Attempts go on, and the same request joins them again.
     * Every error says in the metadata of ErrorInfo what it knows of the order, as
     * order_outcome:
     * "unknown": the order may exist; send the same idempotency_key again, under the same API key. A refusal
     * by the catalog is one too, whatever its status: some catalogs look at money,
     * models or inputs before they look at the idempotency_key, and other servers
     * may have sent it before.
     * "not_placed_by_this_call": this call has sent nothing to the catalog; an earlier
     * one may have. Never take another idempotency_key for an order that may exist.
     * "not_placed": there is no order under this idempotency_key, as a durable ledger knows. Never
     * said where callers forward their own API keys.
     * An error without it is as "unknown": the client's own library makes such ones, and
     * the server's that of a message above its size limit, of which nothing was sent.
     * Errors: INVALID_ARGUMENT as for QuoteGeneration;
     * FAILED_PRECONDITION with reason INSUFFICIENT_BALANCE (after a top-up the same
     * idempotency_key may be sent again) or PRICE_ABOVE_LIMIT (this call has sent nothing);
     * RESOURCE_EXHAUSTED with reason API_KEY_DAILY_CAP and no RetryInfo;
     * ALREADY_EXISTS with reason IDEMPOTENCY_KEY_REUSED where the idempotency_key is
     * known to stand for another order, or, with a forwarded API key, for one of unknown
     * outcome whose inputs were other bytes: only the first bytes are ever sent;
     * ABORTED with reason SUBMISSION_IN_PROGRESS and RetryInfo where the catalog is
     * still busy with this idempotency_key;
     * RESOURCE_EXHAUSTED with reason BUDGET_EXCEEDED, QuotaFailure and no RetryInfo where a budget
     * of the caller's team has no room for the price: the metadata has window ("day" or
     * "month"), reset_time (when the next one begins, RFC 3339), remaining_cents and
     * price_cents;
     * PERMISSION_DENIED with reason MODEL_NOT_ALLOWED where the caller's team may not order
     * this model;
     * UNAVAILABLE with reason LEDGER_UNAVAILABLE: this call has sent nothing;
     * UNAVAILABLE with reason SUBMISSION_OUTCOME_UNKNOWN and RetryInfo where it is not
     * known whether the order was taken: send the same idempotency_key again. Without
     * RetryInfo it is too late for that (12 hours after the first attempt, unless the
     * operator has set another time): look at the account before you order again.
     * </pre>
     */
    public void createGeneration(io.github.easelgrpc.easel.v1.CreateGenerationRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.CreateGenerationResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCreateGenerationMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * GetGeneration reads one render. Where the render is being watched under the same
     * API key, the answer comes from the watch and costs the catalog nothing; its age is
     * seen in observe_time, and max_staleness bounds it. While the catalog does not
     * answer, it is the state of before.
     * Errors: NOT_FOUND with reason GENERATION_NOT_FOUND and ResourceInfo. A render
     * of another API key is not found either.
     * </pre>
     */
    public void getGeneration(io.github.easelgrpc.easel.v1.GetGenerationRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.GetGenerationResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetGenerationMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * ListGenerations lists the renders that were ordered through Easel: the caller's own, an
     * operator's list those of all owners, and with a forwarded API key those of that API key. They
     * go back to the first, the newest order first, each in the state that the ledger has recorded;
     * result and inputs come where the catalog's list, which is up to a second old, has the render. Where
     * the catalog does not answer, those are missing and the list is not. A deleted
     * render comes only where the filter asks for STATE_DELETED. The lists of those who see
     * everything of an API key (an operator, its forwarder, and callers of a server on which
     * nobody has a name), without labels in the filter, end with what the
     * catalog lists and the ledger does not know as theirs, in the catalog's order, without an
     * owner; where the catalog does not answer then, those last pages fail as every read does.
     * Errors: INVALID_ARGUMENT for a page_token that this list did not give out for the
     * same filter, and for filter.owner from a caller that is no operator.
     * </pre>
     */
    public void listGenerations(io.github.easelgrpc.easel.v1.ListGenerationsRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.ListGenerationsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListGenerationsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * WaitGeneration answers when the render has reached the goal, or when the time
     * has run out: then with the newest state, and OK. Look at terminal.
     * Upstream trouble does not end a wait. Waits and watches of one render under one
     * API key share its polls. A caller that stays longer than a minute should watch
     * instead.
     * Errors: NOT_FOUND as for GetGeneration.
     * </pre>
     */
    public void waitGeneration(io.github.easelgrpc.easel.v1.WaitGenerationRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.WaitGenerationResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getWaitGenerationMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * WatchGeneration sends the newest state of a render at once and after each
     * change, until the goal is reached: then the stream ends with OK, and OK means
     * nothing else. Changes that come faster than the caller reads are merged; the
     * last one is never lost. When the stream is quiet, a heartbeat says why.
     * Upstream trouble never ends a watch: it is told in heartbeats. The stream ends
     * without OK only by:
     * NOT_FOUND before the first message;
     * UNAVAILABLE with RetryInfo, after a closing message, where the server goes
     * down or the stream has reached its maximum age;
     * UNAUTHENTICATED where the catalog rejects the caller's own API key, or the server
     * no longer knows the caller's token;
     * RESOURCE_EXHAUSTED where the caller took no message for 30 s.
     * Watch again after every error but NOT_FOUND, UNAUTHENTICATED, PERMISSION_DENIED,
     * INVALID_ARGUMENT, FAILED_PRECONDITION and UNIMPLEMENTED, which a repeat cannot mend:
     * after the time that closing or RetryInfo names, else with back-off, and with the last
     * etag as known_etag. Ending a watch never touches the render or the money.
     * Over REST it is a stream of server-sent events (Accept: text/event-stream) or
     * of JSON lines (Accept: application/x-ndjson).
     * </pre>
     */
    public void watchGeneration(io.github.easelgrpc.easel.v1.WatchGenerationRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.WatchGenerationResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getWatchGenerationMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * WatchGenerations watches many renders on one stream: those named, or every one
     * that the catalog lists for the API key, new ones as they appear. Each behaves as in
     * WatchGeneration. With named renders the stream ends with OK when all of them
     * have reached the goal; without, it has no goal and goes on, and each render is
     * followed until no money can move any more. What others delete is only seen
     * there while the render is not terminal: the catalog's list shows recent renders,
     * and one that is missing need not be gone.
     * An id that the catalog does not know does not end the stream: it is reported
     * with STATE_DELETED. The stream ends without OK, and is watched again, as
     * WatchGeneration, with known_etags.
     * Errors: INVALID_ARGUMENT for filter.owner from a caller that is no operator.
     * Over REST, where headers are short, many ids and etags go into the body of a POST.
     * </pre>
     */
    public void watchGenerations(io.github.easelgrpc.easel.v1.WatchGenerationsRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.WatchGenerationsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getWatchGenerationsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * DownloadGeneration streams the bytes of the result in chunks. The first chunk
     * has info; the last one has summary where the whole result was read. A
     * download that breaks off upstream is resumed without the caller seeing it.
     * Bytes arrive whole or the stream ends with an error: OK means that every byte
     * asked for was sent.
     * Where the operator keeps copies of results, a result is copied once, and then
     * read from the copy: also while the catalog is down, and after it has deleted the
     * render. A text result is there as a file of text then. The first reader may wait a
     * few seconds for the copy. DeleteGeneration deletes the copy too, unless the
     * operator keeps those of the team.
     * Errors: FAILED_PRECONDITION with reason CONTENT_NOT_READY and RetryInfo (not
     * finished; see wait_timeout) or NO_CONTENT (the render has or will have no file;
     * its state is in the metadata);
     * OUT_OF_RANGE with reason READ_OFFSET_OUT_OF_RANGE;
     * UNAVAILABLE with reason CONTENT_INTERRUPTED, and the offset to go on from in
     * the metadata next_offset; DATA_LOSS with reason CONTENT_CHANGED where the
     * bytes are not those of etag, or changed while they were read;
     * RESOURCE_EXHAUSTED where the caller took no byte for two minutes.
     * Over REST it is the bare bytes, with Range, ETag and Content-Length; where
     * bytes fail after the headers, the connection is aborted.
     * </pre>
     */
    public void downloadGeneration(io.github.easelgrpc.easel.v1.DownloadGenerationRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.DownloadGenerationResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getDownloadGenerationMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * DeleteGeneration deletes a render and its result from the catalog for good.
     * Watchers of it get STATE_DELETED and end with OK. An operator may delete those of
     * all owners, which the server's audit has.
     * Errors: FAILED_PRECONDITION with reason GENERATION_ACTIVE where the render is
     * not terminal and force is not set; NOT_FOUND unless allow_missing is set.
     * </pre>
     */
    public void deleteGeneration(io.github.easelgrpc.easel.v1.DeleteGenerationRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.DeleteGenerationResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDeleteGenerationMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service GenerationService.
   * <pre>
   * GenerationService prices, orders, watches, downloads and deletes renders.
   * Orders stand in the server's ledger, with their owner, caller and labels. The ledger is durable,
   * in a file or in PostgreSQL, or it is in memory: see EASEL_LEDGER_URL. A server with a callers file
   * has a durable one. A ledger in memory forgets everything at a stop, and orders that have an
   * outcome after 24 hours, or sooner where there are more than 100,000. An order that was forgotten
   * has no labels, and is in no usage and in no list by owner or label; only those who see every
   * render of the API key find its render. The catalog alone knows its idempotency_key then. So with
   * a ledger in memory order_outcome never says "not_placed".
   * Every error carries google.rpc.ErrorInfo with domain "easel" and a reason.
   * These may come from every call and are not repeated below:
   * UNAUTHENTICATED (no API key, or the catalog rejects it),
   * INVALID_ARGUMENT with reason INVALID_REQUEST and BadRequest (a rule of this
   * contract is broken; the first ten violations are listed),
   * UNAVAILABLE with reason UPSTREAM_UNAVAILABLE and RetryInfo (the catalog did not answer),
   * UNAVAILABLE with reason LEDGER_UNAVAILABLE and RetryInfo (the ledger did not answer),
   * RESOURCE_EXHAUSTED with reason UPSTREAM_RATE_LIMITED and RetryInfo (it asked to slow down),
   * INTERNAL (the catalog answered with something that can't be read).
   * </pre>
   */
  public static final class GenerationServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<GenerationServiceBlockingV2Stub> {
    private GenerationServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected GenerationServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new GenerationServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * QuoteGeneration prices inputs. Nothing is started and nothing is charged.
     * Errors: INVALID_ARGUMENT with reason UPSTREAM_INVALID_INPUT, and in
     * BadRequest the field `inputs.&lt;name&gt;` or `model_id` that the catalog refuses.
     * </pre>
     */
    public io.github.easelgrpc.easel.v1.QuoteGenerationResponse quoteGeneration(io.github.easelgrpc.easel.v1.QuoteGenerationRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getQuoteGenerationMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * CreateGeneration places a paid order. The price is deducted at once, and the
     * render goes on in the background: watch it with WatchGeneration.
     * One idempotency_key is one order. After any error, timeout or crash, send the
     * same request with the same idempotency_key again, within 12 hours and under the
     * same API key: it is not charged twice. Easel itself resends an order only with
     * its idempotency_key, the same bytes and the same API key.
     * Once an order may have left for the catalog, Easel goes on for the time that the
     * caller gave it, even if the caller goes away; then for at most a minute.
     * An attempt that fails is repeated until the caller's deadline, which hears of none. A
     * caller that would rather tell somebody sends the metadata easel-failure-timeout, such
     * as "1.5s": after that time the call ends as soon as an attempt has failed, with what the
     * catalog said and RetryInfo. Attempts go on, and the same request joins them again.
     * Every error says in the metadata of ErrorInfo what it knows of the order, as
     * order_outcome:
     * "unknown": the order may exist; send the same idempotency_key again, under the same API key. A refusal
     * by the catalog is one too, whatever its status: some catalogs look at money,
     * models or inputs before they look at the idempotency_key, and other servers
     * may have sent it before.
     * "not_placed_by_this_call": this call has sent nothing to the catalog; an earlier
     * one may have. Never take another idempotency_key for an order that may exist.
     * "not_placed": there is no order under this idempotency_key, as a durable ledger knows. Never
     * said where callers forward their own API keys.
     * An error without it is as "unknown": the client's own library makes such ones, and
     * the server's that of a message above its size limit, of which nothing was sent.
     * Errors: INVALID_ARGUMENT as for QuoteGeneration;
     * FAILED_PRECONDITION with reason INSUFFICIENT_BALANCE (after a top-up the same
     * idempotency_key may be sent again) or PRICE_ABOVE_LIMIT (this call has sent nothing);
     * RESOURCE_EXHAUSTED with reason API_KEY_DAILY_CAP and no RetryInfo;
     * ALREADY_EXISTS with reason IDEMPOTENCY_KEY_REUSED where the idempotency_key is
     * known to stand for another order, or, with a forwarded API key, for one of unknown
     * outcome whose inputs were other bytes: only the first bytes are ever sent;
     * ABORTED with reason SUBMISSION_IN_PROGRESS and RetryInfo where the catalog is
     * still busy with this idempotency_key;
     * RESOURCE_EXHAUSTED with reason BUDGET_EXCEEDED, QuotaFailure and no RetryInfo where a budget
     * of the caller's team has no room for the price: the metadata has window ("day" or
     * "month"), reset_time (when the next one begins, RFC 3339), remaining_cents and
     * price_cents;
     * PERMISSION_DENIED with reason MODEL_NOT_ALLOWED where the caller's team may not order
     * this model;
     * UNAVAILABLE with reason LEDGER_UNAVAILABLE: this call has sent nothing;
     * UNAVAILABLE with reason SUBMISSION_OUTCOME_UNKNOWN and RetryInfo where it is not
     * known whether the order was taken: send the same idempotency_key again. Without
     * RetryInfo it is too late for that (12 hours after the first attempt, unless the
     * operator has set another time): look at the account before you order again.
     * </pre>
     */
    public io.github.easelgrpc.easel.v1.CreateGenerationResponse createGeneration(io.github.easelgrpc.easel.v1.CreateGenerationRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCreateGenerationMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetGeneration reads one render. Where the render is being watched under the same
     * API key, the answer comes from the watch and costs the catalog nothing; its age is
     * seen in observe_time, and max_staleness bounds it. While the catalog does not
     * answer, it is the state of before.
     * Errors: NOT_FOUND with reason GENERATION_NOT_FOUND and ResourceInfo. A render
     * of another API key is not found either.
     * </pre>
     */
    public io.github.easelgrpc.easel.v1.GetGenerationResponse getGeneration(io.github.easelgrpc.easel.v1.GetGenerationRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetGenerationMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListGenerations lists the renders that were ordered through Easel: the caller's own, an
     * operator's list those of all owners, and with a forwarded API key those of that API key. They
     * go back to the first, the newest order first, each in the state that the ledger has recorded;
     * result and inputs come where the catalog's list, which is up to a second old, has the render. Where
     * the catalog does not answer, those are missing and the list is not. A deleted
     * render comes only where the filter asks for STATE_DELETED. The lists of those who see
     * everything of an API key (an operator, its forwarder, and callers of a server on which
     * nobody has a name), without labels in the filter, end with what the
     * catalog lists and the ledger does not know as theirs, in the catalog's order, without an
     * owner; where the catalog does not answer then, those last pages fail as every read does.
     * Errors: INVALID_ARGUMENT for a page_token that this list did not give out for the
     * same filter, and for filter.owner from a caller that is no operator.
     * </pre>
     */
    public io.github.easelgrpc.easel.v1.ListGenerationsResponse listGenerations(io.github.easelgrpc.easel.v1.ListGenerationsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListGenerationsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * WaitGeneration answers when the render has reached the goal, or when the time
     * has run out: then with the newest state, and OK. Look at terminal.
     * Upstream trouble does not end a wait. Waits and watches of one render under one
     * API key share its polls. A caller that stays longer than a minute should watch
     * instead.
     * Errors: NOT_FOUND as for GetGeneration.
     * </pre>
     */
    public io.github.easelgrpc.easel.v1.WaitGenerationResponse waitGeneration(io.github.easelgrpc.easel.v1.WaitGenerationRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getWaitGenerationMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * WatchGeneration sends the newest state of a render at once and after each
     * change, until the goal is reached: then the stream ends with OK, and OK means
     * nothing else. Changes that come faster than the caller reads are merged; the
     * last one is never lost. When the stream is quiet, a heartbeat says why.
     * Upstream trouble never ends a watch: it is told in heartbeats. The stream ends
     * without OK only by:
     * NOT_FOUND before the first message;
     * UNAVAILABLE with RetryInfo, after a closing message, where the server goes
     * down or the stream has reached its maximum age;
     * UNAUTHENTICATED where the catalog rejects the caller's own API key, or the server
     * no longer knows the caller's token;
     * RESOURCE_EXHAUSTED where the caller took no message for 30 s.
     * Watch again after every error but NOT_FOUND, UNAUTHENTICATED, PERMISSION_DENIED,
     * INVALID_ARGUMENT, FAILED_PRECONDITION and UNIMPLEMENTED, which a repeat cannot mend:
     * after the time that closing or RetryInfo names, else with back-off, and with the last
     * etag as known_etag. Ending a watch never touches the render or the money.
     * Over REST it is a stream of server-sent events (Accept: text/event-stream) or
     * of JSON lines (Accept: application/x-ndjson).
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.github.easelgrpc.easel.v1.WatchGenerationResponse>
        watchGeneration(io.github.easelgrpc.easel.v1.WatchGenerationRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getWatchGenerationMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * WatchGenerations watches many renders on one stream: those named, or every one
     * that the catalog lists for the API key, new ones as they appear. Each behaves as in
     * WatchGeneration. With named renders the stream ends with OK when all of them
     * have reached the goal; without, it has no goal and goes on, and each render is
     * followed until no money can move any more. What others delete is only seen
     * there while the render is not terminal: the catalog's list shows recent renders,
     * and one that is missing need not be gone.
     * An id that the catalog does not know does not end the stream: it is reported
     * with STATE_DELETED. The stream ends without OK, and is watched again, as
     * WatchGeneration, with known_etags.
     * Errors: INVALID_ARGUMENT for filter.owner from a caller that is no operator.
     * Over REST, where headers are short, many ids and etags go into the body of a POST.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.github.easelgrpc.easel.v1.WatchGenerationsResponse>
        watchGenerations(io.github.easelgrpc.easel.v1.WatchGenerationsRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getWatchGenerationsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * DownloadGeneration streams the bytes of the result in chunks. The first chunk
     * has info; the last one has summary where the whole result was read. A
     * download that breaks off upstream is resumed without the caller seeing it.
     * Bytes arrive whole or the stream ends with an error: OK means that every byte
     * asked for was sent.
     * Where the operator keeps copies of results, a result is copied once, and then
     * read from the copy: also while the catalog is down, and after it has deleted the
     * render. A text result is there as a file of text then. The first reader may wait a
     * few seconds for the copy. DeleteGeneration deletes the copy too, unless the
     * operator keeps those of the team.
     * Errors: FAILED_PRECONDITION with reason CONTENT_NOT_READY and RetryInfo (not
     * finished; see wait_timeout) or NO_CONTENT (the render has or will have no file;
     * its state is in the metadata);
     * OUT_OF_RANGE with reason READ_OFFSET_OUT_OF_RANGE;
     * UNAVAILABLE with reason CONTENT_INTERRUPTED, and the offset to go on from in
     * the metadata next_offset; DATA_LOSS with reason CONTENT_CHANGED where the
     * bytes are not those of etag, or changed while they were read;
     * RESOURCE_EXHAUSTED where the caller took no byte for two minutes.
     * Over REST it is the bare bytes, with Range, ETag and Content-Length; where
     * bytes fail after the headers, the connection is aborted.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.github.easelgrpc.easel.v1.DownloadGenerationResponse>
        downloadGeneration(io.github.easelgrpc.easel.v1.DownloadGenerationRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getDownloadGenerationMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * DeleteGeneration deletes a render and its result from the catalog for good.
     * Watchers of it get STATE_DELETED and end with OK. An operator may delete those of
     * all owners, which the server's audit has.
     * Errors: FAILED_PRECONDITION with reason GENERATION_ACTIVE where the render is
     * not terminal and force is not set; NOT_FOUND unless allow_missing is set.
     * </pre>
     */
    public io.github.easelgrpc.easel.v1.DeleteGenerationResponse deleteGeneration(io.github.easelgrpc.easel.v1.DeleteGenerationRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDeleteGenerationMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service GenerationService.
   * <pre>
   * GenerationService prices, orders, watches, downloads and deletes renders.
   * Orders stand in the server's ledger, with their owner, caller and labels. The ledger is durable,
   * in a file or in PostgreSQL, or it is in memory: see EASEL_LEDGER_URL. A server with a callers file
   * has a durable one. A ledger in memory forgets everything at a stop, and orders that have an
   * outcome after 24 hours, or sooner where there are more than 100,000. An order that was forgotten
   * has no labels, and is in no usage and in no list by owner or label; only those who see every
   * render of the API key find its render. The catalog alone knows its idempotency_key then. So with
   * a ledger in memory order_outcome never says "not_placed".
   * Every error carries google.rpc.ErrorInfo with domain "easel" and a reason.
   * These may come from every call and are not repeated below:
   * UNAUTHENTICATED (no API key, or the catalog rejects it),
   * INVALID_ARGUMENT with reason INVALID_REQUEST and BadRequest (a rule of this
   * contract is broken; the first ten violations are listed),
   * UNAVAILABLE with reason UPSTREAM_UNAVAILABLE and RetryInfo (the catalog did not answer),
   * UNAVAILABLE with reason LEDGER_UNAVAILABLE and RetryInfo (the ledger did not answer),
   * RESOURCE_EXHAUSTED with reason UPSTREAM_RATE_LIMITED and RetryInfo (it asked to slow down),
   * INTERNAL (the catalog answered with something that can't be read).
   * </pre>
   */
  public static final class GenerationServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<GenerationServiceBlockingStub> {
    private GenerationServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected GenerationServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new GenerationServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * QuoteGeneration prices inputs. Nothing is started and nothing is charged.
     * Errors: INVALID_ARGUMENT with reason UPSTREAM_INVALID_INPUT, and in
     * BadRequest the field `inputs.&lt;name&gt;` or `model_id` that the catalog refuses.
     * </pre>
     */
    public io.github.easelgrpc.easel.v1.QuoteGenerationResponse quoteGeneration(io.github.easelgrpc.easel.v1.QuoteGenerationRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getQuoteGenerationMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * CreateGeneration places a paid order. The price is deducted at once, and the
     * render goes on in the background: watch it with WatchGeneration.
     * One idempotency_key is one order. After any error, timeout or crash, send the
     * same request with the same idempotency_key again, within 12 hours and under the
     * same API key: it is not charged twice. Easel itself resends an order only with
     * its idempotency_key, the same bytes and the same API key.
     * Once an order may have left for the catalog, Easel goes on for the time that the
     * caller gave it, even if the caller goes away; then for at most a minute.
     * An attempt that fails is repeated until the caller's deadline, which hears of none. A
     * caller that would rather tell somebody sends the metadata easel-failure-timeout, such
     * as "1.5s": after that time the call ends as soon as an attempt has failed, with what the
     * catalog said and RetryInfo. Attempts go on, and the same request joins them again.
     * Every error says in the metadata of ErrorInfo what it knows of the order, as
     * order_outcome:
     * "unknown": the order may exist; send the same idempotency_key again, under the same API key. A refusal
     * by the catalog is one too, whatever its status: some catalogs look at money,
     * models or inputs before they look at the idempotency_key, and other servers
     * may have sent it before.
     * "not_placed_by_this_call": this call has sent nothing to the catalog; an earlier
     * one may have. Never take another idempotency_key for an order that may exist.
     * "not_placed": there is no order under this idempotency_key, as a durable ledger knows. Never
     * said where callers forward their own API keys.
     * An error without it is as "unknown": the client's own library makes such ones, and
     * the server's that of a message above its size limit, of which nothing was sent.
     * Errors: INVALID_ARGUMENT as for QuoteGeneration;
     * FAILED_PRECONDITION with reason INSUFFICIENT_BALANCE (after a top-up the same
     * idempotency_key may be sent again) or PRICE_ABOVE_LIMIT (this call has sent nothing);
     * RESOURCE_EXHAUSTED with reason API_KEY_DAILY_CAP and no RetryInfo;
     * ALREADY_EXISTS with reason IDEMPOTENCY_KEY_REUSED where the idempotency_key is
     * known to stand for another order, or, with a forwarded API key, for one of unknown
     * outcome whose inputs were other bytes: only the first bytes are ever sent;
     * ABORTED with reason SUBMISSION_IN_PROGRESS and RetryInfo where the catalog is
     * still busy with this idempotency_key;
     * RESOURCE_EXHAUSTED with reason BUDGET_EXCEEDED, QuotaFailure and no RetryInfo where a budget
     * of the caller's team has no room for the price: the metadata has window ("day" or
     * "month"), reset_time (when the next one begins, RFC 3339), remaining_cents and
     * price_cents;
     * PERMISSION_DENIED with reason MODEL_NOT_ALLOWED where the caller's team may not order
     * this model;
     * UNAVAILABLE with reason LEDGER_UNAVAILABLE: this call has sent nothing;
     * UNAVAILABLE with reason SUBMISSION_OUTCOME_UNKNOWN and RetryInfo where it is not
     * known whether the order was taken: send the same idempotency_key again. Without
     * RetryInfo it is too late for that (12 hours after the first attempt, unless the
     * operator has set another time): look at the account before you order again.
     * </pre>
     */
    public io.github.easelgrpc.easel.v1.CreateGenerationResponse createGeneration(io.github.easelgrpc.easel.v1.CreateGenerationRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCreateGenerationMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetGeneration reads one render. Where the render is being watched under the same
     * API key, the answer comes from the watch and costs the catalog nothing; its age is
     * seen in observe_time, and max_staleness bounds it. While the catalog does not
     * answer, it is the state of before.
     * Errors: NOT_FOUND with reason GENERATION_NOT_FOUND and ResourceInfo. A render
     * of another API key is not found either.
     * </pre>
     */
    public io.github.easelgrpc.easel.v1.GetGenerationResponse getGeneration(io.github.easelgrpc.easel.v1.GetGenerationRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetGenerationMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * ListGenerations lists the renders that were ordered through Easel: the caller's own, an
     * operator's list those of all owners, and with a forwarded API key those of that API key. They
     * go back to the first, the newest order first, each in the state that the ledger has recorded;
     * result and inputs come where the catalog's list, which is up to a second old, has the render. Where
     * the catalog does not answer, those are missing and the list is not. A deleted
     * render comes only where the filter asks for STATE_DELETED. The lists of those who see
     * everything of an API key (an operator, its forwarder, and callers of a server on which
     * nobody has a name), without labels in the filter, end with what the
     * catalog lists and the ledger does not know as theirs, in the catalog's order, without an
     * owner; where the catalog does not answer then, those last pages fail as every read does.
     * Errors: INVALID_ARGUMENT for a page_token that this list did not give out for the
     * same filter, and for filter.owner from a caller that is no operator.
     * </pre>
     */
    public io.github.easelgrpc.easel.v1.ListGenerationsResponse listGenerations(io.github.easelgrpc.easel.v1.ListGenerationsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListGenerationsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * WaitGeneration answers when the render has reached the goal, or when the time
     * has run out: then with the newest state, and OK. Look at terminal.
     * Upstream trouble does not end a wait. Waits and watches of one render under one
     * API key share its polls. A caller that stays longer than a minute should watch
     * instead.
     * Errors: NOT_FOUND as for GetGeneration.
     * </pre>
     */
    public io.github.easelgrpc.easel.v1.WaitGenerationResponse waitGeneration(io.github.easelgrpc.easel.v1.WaitGenerationRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getWaitGenerationMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * WatchGeneration sends the newest state of a render at once and after each
     * change, until the goal is reached: then the stream ends with OK, and OK means
     * nothing else. Changes that come faster than the caller reads are merged; the
     * last one is never lost. When the stream is quiet, a heartbeat says why.
     * Upstream trouble never ends a watch: it is told in heartbeats. The stream ends
     * without OK only by:
     * NOT_FOUND before the first message;
     * UNAVAILABLE with RetryInfo, after a closing message, where the server goes
     * down or the stream has reached its maximum age;
     * UNAUTHENTICATED where the catalog rejects the caller's own API key, or the server
     * no longer knows the caller's token;
     * RESOURCE_EXHAUSTED where the caller took no message for 30 s.
     * Watch again after every error but NOT_FOUND, UNAUTHENTICATED, PERMISSION_DENIED,
     * INVALID_ARGUMENT, FAILED_PRECONDITION and UNIMPLEMENTED, which a repeat cannot mend:
     * after the time that closing or RetryInfo names, else with back-off, and with the last
     * etag as known_etag. Ending a watch never touches the render or the money.
     * Over REST it is a stream of server-sent events (Accept: text/event-stream) or
     * of JSON lines (Accept: application/x-ndjson).
     * </pre>
     */
    public java.util.Iterator<io.github.easelgrpc.easel.v1.WatchGenerationResponse> watchGeneration(
        io.github.easelgrpc.easel.v1.WatchGenerationRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getWatchGenerationMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * WatchGenerations watches many renders on one stream: those named, or every one
     * that the catalog lists for the API key, new ones as they appear. Each behaves as in
     * WatchGeneration. With named renders the stream ends with OK when all of them
     * have reached the goal; without, it has no goal and goes on, and each render is
     * followed until no money can move any more. What others delete is only seen
     * there while the render is not terminal: the catalog's list shows recent renders,
     * and one that is missing need not be gone.
     * An id that the catalog does not know does not end the stream: it is reported
     * with STATE_DELETED. The stream ends without OK, and is watched again, as
     * WatchGeneration, with known_etags.
     * Errors: INVALID_ARGUMENT for filter.owner from a caller that is no operator.
     * Over REST, where headers are short, many ids and etags go into the body of a POST.
     * </pre>
     */
    public java.util.Iterator<io.github.easelgrpc.easel.v1.WatchGenerationsResponse> watchGenerations(
        io.github.easelgrpc.easel.v1.WatchGenerationsRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getWatchGenerationsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * DownloadGeneration streams the bytes of the result in chunks. The first chunk
     * has info; the last one has summary where the whole result was read. A
     * download that breaks off upstream is resumed without the caller seeing it.
     * Bytes arrive whole or the stream ends with an error: OK means that every byte
     * asked for was sent.
     * Where the operator keeps copies of results, a result is copied once, and then
     * read from the copy: also while the catalog is down, and after it has deleted the
     * render. A text result is there as a file of text then. The first reader may wait a
     * few seconds for the copy. DeleteGeneration deletes the copy too, unless the
     * operator keeps those of the team.
     * Errors: FAILED_PRECONDITION with reason CONTENT_NOT_READY and RetryInfo (not
     * finished; see wait_timeout) or NO_CONTENT (the render has or will have no file;
     * its state is in the metadata);
     * OUT_OF_RANGE with reason READ_OFFSET_OUT_OF_RANGE;
     * UNAVAILABLE with reason CONTENT_INTERRUPTED, and the offset to go on from in
     * the metadata next_offset; DATA_LOSS with reason CONTENT_CHANGED where the
     * bytes are not those of etag, or changed while they were read;
     * RESOURCE_EXHAUSTED where the caller took no byte for two minutes.
     * Over REST it is the bare bytes, with Range, ETag and Content-Length; where
     * bytes fail after the headers, the connection is aborted.
     * </pre>
     */
    public java.util.Iterator<io.github.easelgrpc.easel.v1.DownloadGenerationResponse> downloadGeneration(
        io.github.easelgrpc.easel.v1.DownloadGenerationRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getDownloadGenerationMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * DeleteGeneration deletes a render and its result from the catalog for good.
     * Watchers of it get STATE_DELETED and end with OK. An operator may delete those of
     * all owners, which the server's audit has.
     * Errors: FAILED_PRECONDITION with reason GENERATION_ACTIVE where the render is
     * not terminal and force is not set; NOT_FOUND unless allow_missing is set.
     * </pre>
     */
    public io.github.easelgrpc.easel.v1.DeleteGenerationResponse deleteGeneration(io.github.easelgrpc.easel.v1.DeleteGenerationRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDeleteGenerationMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service GenerationService.
   * <pre>
   * GenerationService prices, orders, watches, downloads and deletes renders.
   * Orders stand in the server's ledger, with their owner, caller and labels. The ledger is durable,
   * in a file or in PostgreSQL, or it is in memory: see EASEL_LEDGER_URL. A server with a callers file
   * has a durable one. A ledger in memory forgets everything at a stop, and orders that have an
   * outcome after 24 hours, or sooner where there are more than 100,000. An order that was forgotten
   * has no labels, and is in no usage and in no list by owner or label; only those who see every
   * render of the API key find its render. The catalog alone knows its idempotency_key then. So with
   * a ledger in memory order_outcome never says "not_placed".
   * Every error carries google.rpc.ErrorInfo with domain "easel" and a reason.
   * These may come from every call and are not repeated below:
   * UNAUTHENTICATED (no API key, or the catalog rejects it),
   * INVALID_ARGUMENT with reason INVALID_REQUEST and BadRequest (a rule of this
   * contract is broken; the first ten violations are listed),
   * UNAVAILABLE with reason UPSTREAM_UNAVAILABLE and RetryInfo (the catalog did not answer),
   * UNAVAILABLE with reason LEDGER_UNAVAILABLE and RetryInfo (the ledger did not answer),
   * RESOURCE_EXHAUSTED with reason UPSTREAM_RATE_LIMITED and RetryInfo (it asked to slow down),
   * INTERNAL (the catalog answered with something that can't be read).
   * </pre>
   */
  public static final class GenerationServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<GenerationServiceFutureStub> {
    private GenerationServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected GenerationServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new GenerationServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * QuoteGeneration prices inputs. Nothing is started and nothing is charged.
     * Errors: INVALID_ARGUMENT with reason UPSTREAM_INVALID_INPUT, and in
     * BadRequest the field `inputs.&lt;name&gt;` or `model_id` that the catalog refuses.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.easelgrpc.easel.v1.QuoteGenerationResponse> quoteGeneration(
        io.github.easelgrpc.easel.v1.QuoteGenerationRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getQuoteGenerationMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * CreateGeneration places a paid order. The price is deducted at once, and the
     * render goes on in the background: watch it with WatchGeneration.
     * One idempotency_key is one order. After any error, timeout or crash, send the
     * same request with the same idempotency_key again, within 12 hours and under the
     * same API key: it is not charged twice. Easel itself resends an order only with
     * its idempotency_key, the same bytes and the same API key.
     * Once an order may have left for the catalog, Easel goes on for the time that the
     * caller gave it, even if the caller goes away; then for at most a minute.
     * An attempt that fails is repeated until the caller's deadline, which hears of none. A
     * caller that would rather tell somebody sends the metadata easel-failure-timeout, such
     * as "1.5s": after that time the call ends as soon as an attempt has failed, with what the
     * catalog said and RetryInfo. Attempts go on, and the same request joins them again.
     * Every error says in the metadata of ErrorInfo what it knows of the order, as
     * order_outcome:
     * "unknown": the order may exist; send the same idempotency_key again, under the same API key. A refusal
     * by the catalog is one too, whatever its status: some catalogs look at money,
     * models or inputs before they look at the idempotency_key, and other servers
     * may have sent it before.
     * "not_placed_by_this_call": this call has sent nothing to the catalog; an earlier
     * one may have. Never take another idempotency_key for an order that may exist.
     * "not_placed": there is no order under this idempotency_key, as a durable ledger knows. Never
     * said where callers forward their own API keys.
     * An error without it is as "unknown": the client's own library makes such ones, and
     * the server's that of a message above its size limit, of which nothing was sent.
     * Errors: INVALID_ARGUMENT as for QuoteGeneration;
     * FAILED_PRECONDITION with reason INSUFFICIENT_BALANCE (after a top-up the same
     * idempotency_key may be sent again) or PRICE_ABOVE_LIMIT (this call has sent nothing);
     * RESOURCE_EXHAUSTED with reason API_KEY_DAILY_CAP and no RetryInfo;
     * ALREADY_EXISTS with reason IDEMPOTENCY_KEY_REUSED where the idempotency_key is
     * known to stand for another order, or, with a forwarded API key, for one of unknown
     * outcome whose inputs were other bytes: only the first bytes are ever sent;
     * ABORTED with reason SUBMISSION_IN_PROGRESS and RetryInfo where the catalog is
     * still busy with this idempotency_key;
     * RESOURCE_EXHAUSTED with reason BUDGET_EXCEEDED, QuotaFailure and no RetryInfo where a budget
     * of the caller's team has no room for the price: the metadata has window ("day" or
     * "month"), reset_time (when the next one begins, RFC 3339), remaining_cents and
     * price_cents;
     * PERMISSION_DENIED with reason MODEL_NOT_ALLOWED where the caller's team may not order
     * this model;
     * UNAVAILABLE with reason LEDGER_UNAVAILABLE: this call has sent nothing;
     * UNAVAILABLE with reason SUBMISSION_OUTCOME_UNKNOWN and RetryInfo where it is not
     * known whether the order was taken: send the same idempotency_key again. Without
     * RetryInfo it is too late for that (12 hours after the first attempt, unless the
     * operator has set another time): look at the account before you order again.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.easelgrpc.easel.v1.CreateGenerationResponse> createGeneration(
        io.github.easelgrpc.easel.v1.CreateGenerationRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCreateGenerationMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * GetGeneration reads one render. Where the render is being watched under the same
     * API key, the answer comes from the watch and costs the catalog nothing; its age is
     * seen in observe_time, and max_staleness bounds it. While the catalog does not
     * answer, it is the state of before.
     * Errors: NOT_FOUND with reason GENERATION_NOT_FOUND and ResourceInfo. A render
     * of another API key is not found either.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.easelgrpc.easel.v1.GetGenerationResponse> getGeneration(
        io.github.easelgrpc.easel.v1.GetGenerationRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetGenerationMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * ListGenerations lists the renders that were ordered through Easel: the caller's own, an
     * operator's list those of all owners, and with a forwarded API key those of that API key. They
     * go back to the first, the newest order first, each in the state that the ledger has recorded;
     * result and inputs come where the catalog's list, which is up to a second old, has the render. Where
     * the catalog does not answer, those are missing and the list is not. A deleted
     * render comes only where the filter asks for STATE_DELETED. The lists of those who see
     * everything of an API key (an operator, its forwarder, and callers of a server on which
     * nobody has a name), without labels in the filter, end with what the
     * catalog lists and the ledger does not know as theirs, in the catalog's order, without an
     * owner; where the catalog does not answer then, those last pages fail as every read does.
     * Errors: INVALID_ARGUMENT for a page_token that this list did not give out for the
     * same filter, and for filter.owner from a caller that is no operator.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.easelgrpc.easel.v1.ListGenerationsResponse> listGenerations(
        io.github.easelgrpc.easel.v1.ListGenerationsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListGenerationsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * WaitGeneration answers when the render has reached the goal, or when the time
     * has run out: then with the newest state, and OK. Look at terminal.
     * Upstream trouble does not end a wait. Waits and watches of one render under one
     * API key share its polls. A caller that stays longer than a minute should watch
     * instead.
     * Errors: NOT_FOUND as for GetGeneration.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.easelgrpc.easel.v1.WaitGenerationResponse> waitGeneration(
        io.github.easelgrpc.easel.v1.WaitGenerationRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getWaitGenerationMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * DeleteGeneration deletes a render and its result from the catalog for good.
     * Watchers of it get STATE_DELETED and end with OK. An operator may delete those of
     * all owners, which the server's audit has.
     * Errors: FAILED_PRECONDITION with reason GENERATION_ACTIVE where the render is
     * not terminal and force is not set; NOT_FOUND unless allow_missing is set.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.easelgrpc.easel.v1.DeleteGenerationResponse> deleteGeneration(
        io.github.easelgrpc.easel.v1.DeleteGenerationRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDeleteGenerationMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_QUOTE_GENERATION = 0;
  private static final int METHODID_CREATE_GENERATION = 1;
  private static final int METHODID_GET_GENERATION = 2;
  private static final int METHODID_LIST_GENERATIONS = 3;
  private static final int METHODID_WAIT_GENERATION = 4;
  private static final int METHODID_WATCH_GENERATION = 5;
  private static final int METHODID_WATCH_GENERATIONS = 6;
  private static final int METHODID_DOWNLOAD_GENERATION = 7;
  private static final int METHODID_DELETE_GENERATION = 8;

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
        case METHODID_QUOTE_GENERATION:
          serviceImpl.quoteGeneration((io.github.easelgrpc.easel.v1.QuoteGenerationRequest) request,
              (io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.QuoteGenerationResponse>) responseObserver);
          break;
        case METHODID_CREATE_GENERATION:
          serviceImpl.createGeneration((io.github.easelgrpc.easel.v1.CreateGenerationRequest) request,
              (io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.CreateGenerationResponse>) responseObserver);
          break;
        case METHODID_GET_GENERATION:
          serviceImpl.getGeneration((io.github.easelgrpc.easel.v1.GetGenerationRequest) request,
              (io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.GetGenerationResponse>) responseObserver);
          break;
        case METHODID_LIST_GENERATIONS:
          serviceImpl.listGenerations((io.github.easelgrpc.easel.v1.ListGenerationsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.ListGenerationsResponse>) responseObserver);
          break;
        case METHODID_WAIT_GENERATION:
          serviceImpl.waitGeneration((io.github.easelgrpc.easel.v1.WaitGenerationRequest) request,
              (io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.WaitGenerationResponse>) responseObserver);
          break;
        case METHODID_WATCH_GENERATION:
          serviceImpl.watchGeneration((io.github.easelgrpc.easel.v1.WatchGenerationRequest) request,
              (io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.WatchGenerationResponse>) responseObserver);
          break;
        case METHODID_WATCH_GENERATIONS:
          serviceImpl.watchGenerations((io.github.easelgrpc.easel.v1.WatchGenerationsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.WatchGenerationsResponse>) responseObserver);
          break;
        case METHODID_DOWNLOAD_GENERATION:
          serviceImpl.downloadGeneration((io.github.easelgrpc.easel.v1.DownloadGenerationRequest) request,
              (io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.DownloadGenerationResponse>) responseObserver);
          break;
        case METHODID_DELETE_GENERATION:
          serviceImpl.deleteGeneration((io.github.easelgrpc.easel.v1.DeleteGenerationRequest) request,
              (io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.DeleteGenerationResponse>) responseObserver);
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
          getQuoteGenerationMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.easelgrpc.easel.v1.QuoteGenerationRequest,
              io.github.easelgrpc.easel.v1.QuoteGenerationResponse>(
                service, METHODID_QUOTE_GENERATION)))
        .addMethod(
          getCreateGenerationMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.easelgrpc.easel.v1.CreateGenerationRequest,
              io.github.easelgrpc.easel.v1.CreateGenerationResponse>(
                service, METHODID_CREATE_GENERATION)))
        .addMethod(
          getGetGenerationMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.easelgrpc.easel.v1.GetGenerationRequest,
              io.github.easelgrpc.easel.v1.GetGenerationResponse>(
                service, METHODID_GET_GENERATION)))
        .addMethod(
          getListGenerationsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.easelgrpc.easel.v1.ListGenerationsRequest,
              io.github.easelgrpc.easel.v1.ListGenerationsResponse>(
                service, METHODID_LIST_GENERATIONS)))
        .addMethod(
          getWaitGenerationMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.easelgrpc.easel.v1.WaitGenerationRequest,
              io.github.easelgrpc.easel.v1.WaitGenerationResponse>(
                service, METHODID_WAIT_GENERATION)))
        .addMethod(
          getWatchGenerationMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.github.easelgrpc.easel.v1.WatchGenerationRequest,
              io.github.easelgrpc.easel.v1.WatchGenerationResponse>(
                service, METHODID_WATCH_GENERATION)))
        .addMethod(
          getWatchGenerationsMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.github.easelgrpc.easel.v1.WatchGenerationsRequest,
              io.github.easelgrpc.easel.v1.WatchGenerationsResponse>(
                service, METHODID_WATCH_GENERATIONS)))
        .addMethod(
          getDownloadGenerationMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.github.easelgrpc.easel.v1.DownloadGenerationRequest,
              io.github.easelgrpc.easel.v1.DownloadGenerationResponse>(
                service, METHODID_DOWNLOAD_GENERATION)))
        .addMethod(
          getDeleteGenerationMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.easelgrpc.easel.v1.DeleteGenerationRequest,
              io.github.easelgrpc.easel.v1.DeleteGenerationResponse>(
                service, METHODID_DELETE_GENERATION)))
        .build();
  }

  private static abstract class GenerationServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    GenerationServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.github.easelgrpc.easel.v1.GenerationServiceProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("GenerationService");
    }
  }

  private static final class GenerationServiceFileDescriptorSupplier
      extends GenerationServiceBaseDescriptorSupplier {
    GenerationServiceFileDescriptorSupplier() {}
  }

  private static final class GenerationServiceMethodDescriptorSupplier
      extends GenerationServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    GenerationServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (GenerationServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new GenerationServiceFileDescriptorSupplier())
              .addMethod(getQuoteGenerationMethod())
              .addMethod(getCreateGenerationMethod())
              .addMethod(getGetGenerationMethod())
              .addMethod(getListGenerationsMethod())
              .addMethod(getWaitGenerationMethod())
              .addMethod(getWatchGenerationMethod())
              .addMethod(getWatchGenerationsMethod())
              .addMethod(getDownloadGenerationMethod())
              .addMethod(getDeleteGenerationMethod())
              .build();
        }
      }
    }
    return result;
  }
}
