// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** Creates the exception for an error class. */
final class Classes {
  private Classes() {}

  static EaselException of(String name, Failure failure) {
    switch (name) {
      case "InvalidRequest":
        return new InvalidRequestException(failure);
      case "Unauthenticated":
        return new UnauthenticatedException(failure);
      case "PermissionDenied":
        return new PermissionDeniedException(failure);
      case "NotFound":
        return new NotFoundException(failure);
      case "InsufficientBalance":
        return new InsufficientBalanceException(failure);
      case "PriceAboveLimit":
        return new PriceAboveLimitException(failure);
      case "BudgetExceeded":
        return new BudgetExceededException(failure);
      case "OrderExpired":
        return new OrderExpiredException(failure);
      case "DailyCapReached":
        return new DailyCapReachedException(failure);
      case "IdempotencyKeyReused":
        return new IdempotencyKeyReusedException(failure);
      case "OutcomeUnknown":
        return new OutcomeUnknownException(failure);
      case "NotReady":
        return new NotReadyException(failure);
      case "NoContent":
        return new NoContentException(failure);
      case "ContentChanged":
        return new ContentChangedException(failure);
      case "Unavailable":
        return new UnavailableException(failure);
      case "ServerFault":
        return new ServerFaultException(failure);
      default:
        throw new IllegalArgumentException(name);
    }
  }
}
