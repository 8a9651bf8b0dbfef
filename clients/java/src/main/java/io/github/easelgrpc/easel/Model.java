package io.github.easelgrpc.easel;

import com.google.protobuf.Value;
import java.util.List;
import java.util.Optional;
import java.util.OptionalDouble;

/**
 * A model in the catalog.
 *
 * @param inputFields the inputs, which {@link Easel#models} may omit and {@link Easel#model} returns
 */
public record Model(
    String modelId, String displayName, String description, OutputKind outputKind, List<InputField> inputFields, io.github.easelgrpc.easel.v1.Model raw) {

  /** The kind of result that a model produces. */
  public enum OutputKind {
    FILE, TEXT,
    /** The catalog does not specify the kind, or this version of the client does not know it. */
    UNKNOWN
  }

  /** The JSON type of an input. */
  public enum InputType {
    STRING, INTEGER, NUMBER, BOOLEAN, OBJECT, ARRAY,
    /** The catalog does not specify the type, or this version of the client does not know it. */
    UNKNOWN
  }

  /**
   * One input of a model.
   *
   * @param required absent if the catalog does not specify it
   * @param defaultValue a string, a number, a Boolean, a list or a map
   * @param allowedValues empty if every value of the type is allowed
   */
  public record InputField(
      String name, String displayName, String description, InputType type, Optional<Boolean> required, Optional<Object> defaultValue,
      List<Object> allowedValues, OptionalDouble minimum, OptionalDouble maximum, io.github.easelgrpc.easel.v1.InputField raw) {

    static InputField of(io.github.easelgrpc.easel.v1.InputField raw) {
      return new InputField(raw.getName(), raw.getDisplayName(), raw.getDescription(), Names.of(raw.getType(), "INPUT_FIELD_TYPE_", InputType.UNKNOWN),
          raw.hasRequired() ? Optional.of(raw.getRequired()) : Optional.empty(), raw.hasDefaultValue() ? Optional.ofNullable(value(raw.getDefaultValue())) : Optional.empty(),
          raw.getAllowedValuesList().stream().map(InputField::value).toList(), raw.hasMinimum() ? OptionalDouble.of(raw.getMinimum()) : OptionalDouble.empty(),
          raw.hasMaximum() ? OptionalDouble.of(raw.getMaximum()) : OptionalDouble.empty(), raw);
    }

    private static Object value(Value value) {
      switch (value.getKindCase()) {
        case STRING_VALUE:
          return value.getStringValue();
        case NUMBER_VALUE:
          return value.getNumberValue();
        case BOOL_VALUE:
          return value.getBoolValue();
        case LIST_VALUE:
          return value.getListValue().getValuesList().stream().map(InputField::value).toList();
        case STRUCT_VALUE:
          var members = new java.util.LinkedHashMap<String, Object>();
          value.getStructValue().getFieldsMap().forEach((name, member) -> members.put(name, value(member)));
          return members;
        default:
          return null;
      }
    }
  }

  static Model of(io.github.easelgrpc.easel.v1.Model raw) {
    return new Model(raw.getModelId(), raw.getDisplayName(), raw.getDescription(), Names.of(raw.getOutputKind(), "OUTPUT_KIND_", OutputKind.UNKNOWN),
        raw.getInputFieldsList().stream().map(InputField::of).toList(), raw);
  }
}
