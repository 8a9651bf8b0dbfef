// Code generated from clients/reasons.json by make generate. DO NOT EDIT.
export declare const errorTable: {
  /** Each class of error, and what it means. */
  readonly classes: Readonly<Record<string, string>>;
  /** The class of each reason, and whether a repeat helps: yes, no, or if_told, with RetryInfo alone. */
  readonly reasons: Readonly<Record<string, { readonly class: string; readonly again: "yes" | "no" | "if_told" }>>;
  /** The same for each gRPC code, where there is no reason, or one of a newer server. */
  readonly codes: Readonly<Record<string, { readonly class: string; readonly again: "yes" | "no" | "if_told" }>>;
  /** The codes after which a watch that is opened again would meet the same again. */
  readonly watch_ends: readonly string[];
};
