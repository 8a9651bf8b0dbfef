// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
package io.github.easelgrpc.easel;

/** The budget of the team or of a label value does not cover the price. The error contains the time when the budget is reset. */
public final class BudgetExceededException extends EaselException {
  private static final long serialVersionUID = 1;

  BudgetExceededException(Failure failure) {
    super(failure);
  }
}
