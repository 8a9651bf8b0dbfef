// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
export declare const errorTable: {
  /** Classes of errors, and their meaning. */
  readonly classes: Readonly<Record<string, string>>;
  /** The class of each reason, and whether a retry helps: yes, no, or if_told (only with RetryInfo). */
  readonly reasons: Readonly<Record<string, { readonly class: string; readonly again: "yes" | "no" | "if_told" }>>;
  /** The same for each gRPC code, used if the reason is missing or unknown. */
  readonly codes: Readonly<Record<string, { readonly class: string; readonly again: "yes" | "no" | "if_told" }>>;
  /** Codes after which a new watch would fail in the same way. */
  readonly watch_ends: readonly string[];
};
