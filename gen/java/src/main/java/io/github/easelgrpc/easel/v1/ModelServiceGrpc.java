package io.github.easelgrpc.easel.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * ModelService reads the catalog's models and their inputs. Reading costs nothing.
 * Answers come from copies, one set for each API key, and observe_time tells their age. A
 * copy is the answer for 1 minute; until it is 10 minutes old it still is, and is renewed
 * behind the answer; an older one is renewed first. Only while the catalog does not answer,
 * asks to slow down or answers with something that can't be read, an older copy is given,
 * up to 24 hours old, and the catalog is asked again at most every 10 seconds. An API key that
 * the catalog rejects or forbids loses its copies, and a model that is gone loses its own.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class ModelServiceGrpc {

  private ModelServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "easel.v1.ModelService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.ListModelsRequest,
      io.github.easelgrpc.easel.v1.ListModelsResponse> getListModelsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListModels",
      requestType = io.github.easelgrpc.easel.v1.ListModelsRequest.class,
      responseType = io.github.easelgrpc.easel.v1.ListModelsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.ListModelsRequest,
      io.github.easelgrpc.easel.v1.ListModelsResponse> getListModelsMethod() {
    io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.ListModelsRequest, io.github.easelgrpc.easel.v1.ListModelsResponse> getListModelsMethod;
    if ((getListModelsMethod = ModelServiceGrpc.getListModelsMethod) == null) {
      synchronized (ModelServiceGrpc.class) {
        if ((getListModelsMethod = ModelServiceGrpc.getListModelsMethod) == null) {
          ModelServiceGrpc.getListModelsMethod = getListModelsMethod =
              io.grpc.MethodDescriptor.<io.github.easelgrpc.easel.v1.ListModelsRequest, io.github.easelgrpc.easel.v1.ListModelsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListModels"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.ListModelsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.ListModelsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ModelServiceMethodDescriptorSupplier("ListModels"))
              .build();
        }
      }
    }
    return getListModelsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.GetModelRequest,
      io.github.easelgrpc.easel.v1.GetModelResponse> getGetModelMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetModel",
      requestType = io.github.easelgrpc.easel.v1.GetModelRequest.class,
      responseType = io.github.easelgrpc.easel.v1.GetModelResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.GetModelRequest,
      io.github.easelgrpc.easel.v1.GetModelResponse> getGetModelMethod() {
    io.grpc.MethodDescriptor<io.github.easelgrpc.easel.v1.GetModelRequest, io.github.easelgrpc.easel.v1.GetModelResponse> getGetModelMethod;
    if ((getGetModelMethod = ModelServiceGrpc.getGetModelMethod) == null) {
      synchronized (ModelServiceGrpc.class) {
        if ((getGetModelMethod = ModelServiceGrpc.getGetModelMethod) == null) {
          ModelServiceGrpc.getGetModelMethod = getGetModelMethod =
              io.grpc.MethodDescriptor.<io.github.easelgrpc.easel.v1.GetModelRequest, io.github.easelgrpc.easel.v1.GetModelResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetModel"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.GetModelRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.github.easelgrpc.easel.v1.GetModelResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ModelServiceMethodDescriptorSupplier("GetModel"))
              .build();
        }
      }
    }
    return getGetModelMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static ModelServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ModelServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ModelServiceStub>() {
        @java.lang.Override
        public ModelServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ModelServiceStub(channel, callOptions);
        }
      };
    return ModelServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static ModelServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ModelServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ModelServiceBlockingV2Stub>() {
        @java.lang.Override
        public ModelServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ModelServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return ModelServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static ModelServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ModelServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ModelServiceBlockingStub>() {
        @java.lang.Override
        public ModelServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ModelServiceBlockingStub(channel, callOptions);
        }
      };
    return ModelServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static ModelServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ModelServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ModelServiceFutureStub>() {
        @java.lang.Override
        public ModelServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ModelServiceFutureStub(channel, callOptions);
        }
      };
    return ModelServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * ModelService reads the catalog's models and their inputs. Reading costs nothing.
   * Answers come from copies, one set for each API key, and observe_time tells their age. A
   * copy is the answer for 1 minute; until it is 10 minutes old it still is, and is renewed
   * behind the answer; an older one is renewed first. Only while the catalog does not answer,
   * asks to slow down or answers with something that can't be read, an older copy is given,
   * up to 24 hours old, and the catalog is asked again at most every 10 seconds. An API key that
   * the catalog rejects or forbids loses its copies, and a model that is gone loses its own.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * ListModels lists the models that the API key may order from, in the catalog's
     * order.
     * Errors: INVALID_ARGUMENT for a page_token that this list did not give out;
     * UNAUTHENTICATED, UNAVAILABLE and RESOURCE_EXHAUSTED as for GetAccount.
     * </pre>
     */
    default void listModels(io.github.easelgrpc.easel.v1.ListModelsRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.ListModelsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListModelsMethod(), responseObserver);
    }

    /**
     * <pre>
     * GetModel reads one model with its input fields. A model id may contain "/",
     * and over REST it is written into the path as it is.
     * Errors: NOT_FOUND with reason MODEL_NOT_FOUND and ResourceInfo where the
     * catalog has no such model; the rest as for ListModels.
     * </pre>
     */
    default void getModel(io.github.easelgrpc.easel.v1.GetModelRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.GetModelResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetModelMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service ModelService.
   * <pre>
   * ModelService reads the catalog's models and their inputs. Reading costs nothing.
   * Answers come from copies, one set for each API key, and observe_time tells their age. A
   * copy is the answer for 1 minute; until it is 10 minutes old it still is, and is renewed
   * behind the answer; an older one is renewed first. Only while the catalog does not answer,
   * asks to slow down or answers with something that can't be read, an older copy is given,
   * up to 24 hours old, and the catalog is asked again at most every 10 seconds. An API key that
   * the catalog rejects or forbids loses its copies, and a model that is gone loses its own.
   * </pre>
   */
  public static abstract class ModelServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return ModelServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service ModelService.
   * <pre>
   * ModelService reads the catalog's models and their inputs. Reading costs nothing.
   * Answers come from copies, one set for each API key, and observe_time tells their age. A
   * copy is the answer for 1 minute; until it is 10 minutes old it still is, and is renewed
   * behind the answer; an older one is renewed first. Only while the catalog does not answer,
   * asks to slow down or answers with something that can't be read, an older copy is given,
   * up to 24 hours old, and the catalog is asked again at most every 10 seconds. An API key that
   * the catalog rejects or forbids loses its copies, and a model that is gone loses its own.
   * </pre>
   */
  public static final class ModelServiceStub
      extends io.grpc.stub.AbstractAsyncStub<ModelServiceStub> {
    private ModelServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ModelServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ModelServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * ListModels lists the models that the API key may order from, in the catalog's
     * order.
     * Errors: INVALID_ARGUMENT for a page_token that this list did not give out;
     * UNAUTHENTICATED, UNAVAILABLE and RESOURCE_EXHAUSTED as for GetAccount.
     * </pre>
     */
    public void listModels(io.github.easelgrpc.easel.v1.ListModelsRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.ListModelsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListModelsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * GetModel reads one model with its input fields. A model id may contain "/",
     * and over REST it is written into the path as it is.
     * Errors: NOT_FOUND with reason MODEL_NOT_FOUND and ResourceInfo where the
     * catalog has no such model; the rest as for ListModels.
     * </pre>
     */
    public void getModel(io.github.easelgrpc.easel.v1.GetModelRequest request,
        io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.GetModelResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetModelMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service ModelService.
   * <pre>
   * ModelService reads the catalog's models and their inputs. Reading costs nothing.
   * Answers come from copies, one set for each API key, and observe_time tells their age. A
   * copy is the answer for 1 minute; until it is 10 minutes old it still is, and is renewed
   * behind the answer; an older one is renewed first. Only while the catalog does not answer,
   * asks to slow down or answers with something that can't be read, an older copy is given,
   * up to 24 hours old, and the catalog is asked again at most every 10 seconds. An API key that
   * the catalog rejects or forbids loses its copies, and a model that is gone loses its own.
   * </pre>
   */
  public static final class ModelServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<ModelServiceBlockingV2Stub> {
    private ModelServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ModelServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ModelServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * ListModels lists the models that the API key may order from, in the catalog's
     * order.
     * Errors: INVALID_ARGUMENT for a page_token that this list did not give out;
     * UNAUTHENTICATED, UNAVAILABLE and RESOURCE_EXHAUSTED as for GetAccount.
     * </pre>
     */
    public io.github.easelgrpc.easel.v1.ListModelsResponse listModels(io.github.easelgrpc.easel.v1.ListModelsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListModelsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetModel reads one model with its input fields. A model id may contain "/",
     * and over REST it is written into the path as it is.
     * Errors: NOT_FOUND with reason MODEL_NOT_FOUND and ResourceInfo where the
     * catalog has no such model; the rest as for ListModels.
     * </pre>
     */
    public io.github.easelgrpc.easel.v1.GetModelResponse getModel(io.github.easelgrpc.easel.v1.GetModelRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetModelMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service ModelService.
   * <pre>
   * ModelService reads the catalog's models and their inputs. Reading costs nothing.
   * Answers come from copies, one set for each API key, and observe_time tells their age. A
   * copy is the answer for 1 minute; until it is 10 minutes old it still is, and is renewed
   * behind the answer; an older one is renewed first. Only while the catalog does not answer,
   * asks to slow down or answers with something that can't be read, an older copy is given,
   * up to 24 hours old, and the catalog is asked again at most every 10 seconds. An API key that
   * the catalog rejects or forbids loses its copies, and a model that is gone loses its own.
   * </pre>
   */
  public static final class ModelServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<ModelServiceBlockingStub> {
    private ModelServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ModelServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ModelServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * ListModels lists the models that the API key may order from, in the catalog's
     * order.
     * Errors: INVALID_ARGUMENT for a page_token that this list did not give out;
     * UNAUTHENTICATED, UNAVAILABLE and RESOURCE_EXHAUSTED as for GetAccount.
     * </pre>
     */
    public io.github.easelgrpc.easel.v1.ListModelsResponse listModels(io.github.easelgrpc.easel.v1.ListModelsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListModelsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * GetModel reads one model with its input fields. A model id may contain "/",
     * and over REST it is written into the path as it is.
     * Errors: NOT_FOUND with reason MODEL_NOT_FOUND and ResourceInfo where the
     * catalog has no such model; the rest as for ListModels.
     * </pre>
     */
    public io.github.easelgrpc.easel.v1.GetModelResponse getModel(io.github.easelgrpc.easel.v1.GetModelRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetModelMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service ModelService.
   * <pre>
   * ModelService reads the catalog's models and their inputs. Reading costs nothing.
   * Answers come from copies, one set for each API key, and observe_time tells their age. A
   * copy is the answer for 1 minute; until it is 10 minutes old it still is, and is renewed
   * behind the answer; an older one is renewed first. Only while the catalog does not answer,
   * asks to slow down or answers with something that can't be read, an older copy is given,
   * up to 24 hours old, and the catalog is asked again at most every 10 seconds. An API key that
   * the catalog rejects or forbids loses its copies, and a model that is gone loses its own.
   * </pre>
   */
  public static final class ModelServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<ModelServiceFutureStub> {
    private ModelServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ModelServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ModelServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * ListModels lists the models that the API key may order from, in the catalog's
     * order.
     * Errors: INVALID_ARGUMENT for a page_token that this list did not give out;
     * UNAUTHENTICATED, UNAVAILABLE and RESOURCE_EXHAUSTED as for GetAccount.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.easelgrpc.easel.v1.ListModelsResponse> listModels(
        io.github.easelgrpc.easel.v1.ListModelsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListModelsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * GetModel reads one model with its input fields. A model id may contain "/",
     * and over REST it is written into the path as it is.
     * Errors: NOT_FOUND with reason MODEL_NOT_FOUND and ResourceInfo where the
     * catalog has no such model; the rest as for ListModels.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.github.easelgrpc.easel.v1.GetModelResponse> getModel(
        io.github.easelgrpc.easel.v1.GetModelRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetModelMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_LIST_MODELS = 0;
  private static final int METHODID_GET_MODEL = 1;

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
        case METHODID_LIST_MODELS:
          serviceImpl.listModels((io.github.easelgrpc.easel.v1.ListModelsRequest) request,
              (io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.ListModelsResponse>) responseObserver);
          break;
        case METHODID_GET_MODEL:
          serviceImpl.getModel((io.github.easelgrpc.easel.v1.GetModelRequest) request,
              (io.grpc.stub.StreamObserver<io.github.easelgrpc.easel.v1.GetModelResponse>) responseObserver);
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
          getListModelsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.easelgrpc.easel.v1.ListModelsRequest,
              io.github.easelgrpc.easel.v1.ListModelsResponse>(
                service, METHODID_LIST_MODELS)))
        .addMethod(
          getGetModelMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.github.easelgrpc.easel.v1.GetModelRequest,
              io.github.easelgrpc.easel.v1.GetModelResponse>(
                service, METHODID_GET_MODEL)))
        .build();
  }

  private static abstract class ModelServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    ModelServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.github.easelgrpc.easel.v1.ModelServiceProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("ModelService");
    }
  }

  private static final class ModelServiceFileDescriptorSupplier
      extends ModelServiceBaseDescriptorSupplier {
    ModelServiceFileDescriptorSupplier() {}
  }

  private static final class ModelServiceMethodDescriptorSupplier
      extends ModelServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    ModelServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (ModelServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new ModelServiceFileDescriptorSupplier())
              .addMethod(getListModelsMethod())
              .addMethod(getGetModelMethod())
              .build();
        }
      }
    }
    return result;
  }
}
