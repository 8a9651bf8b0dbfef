# Code generated from clients/reasons.json by make generate. DO NOT EDIT.
"""Error classes and retry rules of each reason."""

# Classes of errors, and their meaning.
CLASSES: dict[str, str] = {
    "InvalidRequest": "The request violates a rule. Fix the request.",
    "Unauthenticated": "The API key or token is missing or not accepted.",
    "PermissionDenied": "The caller does not have permission for this call.",
    "NotFound": "There is no such render or model for this caller.",
    "InsufficientBalance": "The balance does not cover the price.",
    "PriceAboveLimit": "The price is above the order's limit.",
    "BudgetExceeded": "The team's budget does not cover the price. The error has the time when the budget is reset.",
    "DailyCapReached": "The API key has reached its daily cap in the catalog.",
    "IdempotencyKeyReused": "The idempotency key was used for another order.",
    "OutcomeUnknown": "The catalog may or may not have accepted the order. Keep its idempotency key.",
    "NotReady": "The render is not finished, or its result is not available yet.",
    "NoContent": "The render has no file and never will.",
    "ContentChanged": "The file has changed since the download started.",
    "Unavailable": "Easel or the catalog is temporarily unavailable.",
    "ServerFault": "The call failed for a reason that the server's operator must fix.",
    "Timeout": "The call's timeout has passed. After a watch, the error has the last heartbeat.",
    "RenderFailed": "The render was paid but has no result, or it was deleted.",
    "Damaged": "Bytes of a download are damaged or missing."
  }

# The class of each reason, and whether a retry helps: yes, no, or if_told (only with RetryInfo).
REASONS: dict[str, dict[str, str]] = {
    "INVALID_REQUEST": {"class": "InvalidRequest", "again": "no"},
    "UPSTREAM_INVALID_INPUT": {"class": "InvalidRequest", "again": "no"},
    "INPUTS_TOO_LARGE": {"class": "InvalidRequest", "again": "no"},
    "REQUEST_TOO_LARGE": {"class": "InvalidRequest", "again": "no"},
    "REQUEST_BODY_TIMEOUT": {"class": "Unavailable", "again": "yes"},
    "CREDENTIAL_MISSING": {"class": "Unauthenticated", "again": "no"},
    "CREDENTIAL_MALFORMED": {"class": "Unauthenticated", "again": "no"},
    "CALLER_UNKNOWN": {"class": "Unauthenticated", "again": "no"},
    "UPSTREAM_CREDENTIAL_REJECTED": {"class": "Unauthenticated", "again": "no"},
    "UPSTREAM_FORBIDDEN": {"class": "PermissionDenied", "again": "no"},
    "MODEL_NOT_ALLOWED": {"class": "PermissionDenied", "again": "no"},
    "GENERATION_NOT_FOUND": {"class": "NotFound", "again": "no"},
    "MODEL_NOT_FOUND": {"class": "NotFound", "again": "no"},
    "NOT_FOUND": {"class": "NotFound", "again": "no"},
    "INSUFFICIENT_BALANCE": {"class": "InsufficientBalance", "again": "no"},
    "PRICE_ABOVE_LIMIT": {"class": "PriceAboveLimit", "again": "no"},
    "BUDGET_EXCEEDED": {"class": "BudgetExceeded", "again": "no"},
    "API_KEY_DAILY_CAP": {"class": "DailyCapReached", "again": "no"},
    "IDEMPOTENCY_KEY_REUSED": {"class": "IdempotencyKeyReused", "again": "no"},
    "SUBMISSION_IN_PROGRESS": {"class": "Unavailable", "again": "yes"},
    "SUBMISSION_OUTCOME_UNKNOWN": {"class": "OutcomeUnknown", "again": "if_told"},
    "GENERATION_ACTIVE": {"class": "NotReady", "again": "no"},
    "CONTENT_NOT_READY": {"class": "NotReady", "again": "yes"},
    "NO_CONTENT": {"class": "NoContent", "again": "no"},
    "READ_OFFSET_OUT_OF_RANGE": {"class": "InvalidRequest", "again": "no"},
    "CONTENT_INTERRUPTED": {"class": "Unavailable", "again": "yes"},
    "CONTENT_CHANGED": {"class": "ContentChanged", "again": "no"},
    "RESUME_TOKEN_EXPIRED": {"class": "InvalidRequest", "again": "no"},
    "UPSTREAM_RATE_LIMITED": {"class": "Unavailable", "again": "yes"},
    "UPSTREAM_UNAVAILABLE": {"class": "Unavailable", "again": "yes"},
    "UPSTREAM_REDIRECT_REFUSED": {"class": "ServerFault", "again": "no"},
    "UPSTREAM_CONTRACT_MISMATCH": {"class": "ServerFault", "again": "no"},
    "UPSTREAM_MALFORMED_RESPONSE": {"class": "Unavailable", "again": "yes"},
    "LEDGER_UNAVAILABLE": {"class": "Unavailable", "again": "yes"},
    "ISSUER_UNAVAILABLE": {"class": "Unavailable", "again": "yes"},
    "OVERLOADED": {"class": "Unavailable", "again": "yes"},
    "STREAM_QUOTA_EXCEEDED": {"class": "Unavailable", "again": "yes"},
    "READER_TOO_SLOW": {"class": "Unavailable", "again": "yes"},
    "SERVER_DRAINING": {"class": "Unavailable", "again": "yes"},
    "STREAM_MAX_AGE": {"class": "Unavailable", "again": "yes"},
    "ROUTE_NOT_FOUND": {"class": "InvalidRequest", "again": "no"},
    "METHOD_NOT_ALLOWED": {"class": "InvalidRequest", "again": "no"},
    "UNSUPPORTED_MEDIA_TYPE": {"class": "InvalidRequest", "again": "no"},
    "PRECONDITION_FAILED": {"class": "InvalidRequest", "again": "no"},
    "HOST_NOT_ALLOWED": {"class": "PermissionDenied", "again": "no"},
    "CROSS_ORIGIN_REQUEST": {"class": "PermissionDenied", "again": "no"},
    "CANCELLED": {"class": "Unavailable", "again": "yes"},
    "DEADLINE_EXCEEDED": {"class": "Unavailable", "again": "yes"},
    "INTERNAL": {"class": "Unavailable", "again": "yes"},
    "UNIMPLEMENTED": {"class": "ServerFault", "again": "no"},
    "INVALID_ARGUMENT": {"class": "InvalidRequest", "again": "no"},
    "RESOURCE_EXHAUSTED": {"class": "InvalidRequest", "again": "no"},
    "UNAVAILABLE": {"class": "Unavailable", "again": "yes"}
  }

# The same for each gRPC code, used if the reason is missing or unknown.
CODES: dict[str, dict[str, str]] = {
    "CANCELLED": {"class": "Unavailable", "again": "yes"},
    "UNKNOWN": {"class": "Unavailable", "again": "yes"},
    "INVALID_ARGUMENT": {"class": "InvalidRequest", "again": "if_told"},
    "DEADLINE_EXCEEDED": {"class": "Unavailable", "again": "yes"},
    "NOT_FOUND": {"class": "NotFound", "again": "if_told"},
    "ALREADY_EXISTS": {"class": "InvalidRequest", "again": "if_told"},
    "PERMISSION_DENIED": {"class": "PermissionDenied", "again": "if_told"},
    "RESOURCE_EXHAUSTED": {"class": "InvalidRequest", "again": "if_told"},
    "FAILED_PRECONDITION": {"class": "InvalidRequest", "again": "if_told"},
    "ABORTED": {"class": "Unavailable", "again": "yes"},
    "OUT_OF_RANGE": {"class": "InvalidRequest", "again": "if_told"},
    "UNIMPLEMENTED": {"class": "ServerFault", "again": "if_told"},
    "INTERNAL": {"class": "Unavailable", "again": "yes"},
    "UNAVAILABLE": {"class": "Unavailable", "again": "yes"},
    "DATA_LOSS": {"class": "ServerFault", "again": "if_told"},
    "UNAUTHENTICATED": {"class": "Unauthenticated", "again": "if_told"}
  }

# Codes after which a new watch would fail in the same way.
WATCH_ENDS: list[str] = ["INVALID_ARGUMENT", "NOT_FOUND", "PERMISSION_DENIED", "FAILED_PRECONDITION", "OUT_OF_RANGE", "UNIMPLEMENTED", "UNAUTHENTICATED"]
