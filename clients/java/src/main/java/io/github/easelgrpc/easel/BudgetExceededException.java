// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** The team's budget has no room for the price until it is reset. */
public final class BudgetExceededException extends EaselException {
  private static final long serialVersionUID = 1;

  BudgetExceededException(Failure failure) {
    super(failure);
  }
}
