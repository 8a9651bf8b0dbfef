package io.github.easelgrpc.easel;

import com.google.protobuf.ProtocolMessageEnum;
import java.util.Arrays;

/** Converts the contract's enums to Java enums. A Java constant has the same name without the enum's prefix. */
final class Names {
  private Names() {}

  /**
   * Returns the Java constant for a value of an enum in the contract. If there is no such constant, it returns the argument
   * {@code unknown}.
   */
  static <E extends Enum<E>> E of(ProtocolMessageEnum value, String prefix, E unknown) {
    var name = value.toString();
    return Arrays.stream(unknown.getDeclaringClass().getEnumConstants()).filter(one -> name.equals(prefix + one)).findFirst().orElse(unknown);
  }
}
