package io.github.easelgrpc.easel;

/**
 * The number and the costs of a group of orders, such as all orders of one model on one day. The requested dimensions determine
 * the groups. Dimensions that were not requested are empty.
 */
public record UsageRow(
    String day, String owner, String caller, String modelId, String labelValue, long orderCount, long failedCount, long unknownCount,
    long costCents, long refundedCents, long reservedCents, long unconfirmedCents, String currencyCode, io.github.easelgrpc.easel.v1.UsageRow raw) {

  static UsageRow of(io.github.easelgrpc.easel.v1.UsageRow raw) {
    return new UsageRow(raw.getDay(), raw.getOwner(), raw.getCaller(), raw.getModelId(), raw.getLabelValue(), raw.getOrderCount(), raw.getFailedCount(),
        raw.getUnknownCount(), raw.getCostCents(), raw.getRefundedCents(), raw.getReservedCents(), raw.getUnconfirmedCents(), raw.getCurrencyCode(), raw);
  }
}
