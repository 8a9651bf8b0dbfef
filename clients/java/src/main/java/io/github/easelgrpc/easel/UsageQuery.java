package io.github.easelgrpc.easel;

import io.github.easelgrpc.easel.v1.ListUsageRequest;
import java.time.Instant;

/** The period and the dimensions of a usage report. By default, the period starts with the first order and ends now. */
public final class UsageQuery {
  final ListUsageRequest.Builder request = ListUsageRequest.newBuilder();

  /** A property by which orders are grouped. */
  public enum Dimension { DAY, OWNER, CALLER, MODEL, LABEL }

  /** Adds dimensions by which orders are grouped. */
  public UsageQuery by(Dimension... dimensions) {
    for (var dimension : dimensions) {
      request.addGroupBy(io.github.easelgrpc.easel.v1.UsageDimension.valueOf("USAGE_DIMENSION_" + dimension));
    }
    return this;
  }

  /** Groups orders by the values of this label. */
  public UsageQuery byLabel(String name) {
    request.setLabelName(name);
    return by(Dimension.LABEL);
  }

  /** Sets the start of the period. Orders at this time are included. */
  public UsageQuery start(Instant time) {
    request.setStartTime(Times.timestamp(time));
    return this;
  }

  /** Sets the end of the period. Orders at this time are excluded. */
  public UsageQuery end(Instant time) {
    request.setEndTime(Times.timestamp(time));
    return this;
  }
}
