package catalog

// This file contains the rules for reading responses. The specification does not define all names of JSON members. Each value
// is looked up under the names in a table, and the first readable value is used. To support another name, add it to the table.
// Case, '_' and '-' are ignored: costCents also matches cost_cents, CostCents and cost-cents.

// Names of the member that contains the list in a response body. The body can also be the list itself, an object with exactly
// one array, or an object that contains records keyed by ID.
var (
	modelListNames      = foldNames("models", "data", "items", "results", "list", "records", "entries", "catalog")
	generationListNames = foldNames("generations", "data", "items", "results", "list", "records", "entries", "renders", "jobs")
)

// Names of members that contain a record. The body can also be the record itself.
var (
	accountWrappers    = foldNames("account", "key", "apiKey", "me", "user", "data", "result", "item", "response", "payload")
	modelWrappers      = foldNames("model", "data", "result", "item", "record", "response", "payload")
	generationWrappers = foldNames("generation", "render", "job", "data", "result", "item", "record", "response", "payload")
	quoteWrappers      = foldNames("quote", "price", "cost", "data", "result", "response", "payload")
)

// An account's ID is in a member whose name is in accountIDNames. It can also be in a member whose name is in ownerIDNames,
// inside an object whose name is in accountHolders. A user is not an account, because several users of an organization can have
// API keys for the same account.
var (
	accountIDNames = foldNames("accountId", "organizationId", "workspaceId", "customerId")
	accountHolders = foldNames("account", "organization", "workspace", "customer")
	ownerIDNames   = foldNames("id", "uuid", "_id")
)

// Names of members that contain an ID. IDs are strings or integers. The digits of an integer are kept unchanged.
var (
	generationIDNames = foldNames("id", "generationId", "renderId", "jobId", "uuid", "_id")
	modelIDNames      = foldNames("id", "modelId", "slug", "model", "key", "name")
)

// Names of the JSON members in a generation's record.
var (
	statusNames       = foldNames("status", "state")
	modelOfNames      = foldNames("modelId", "model", "modelSlug")
	inputsNames       = foldNames("inputs", "input")
	costNames         = foldNames("costCents", "chargedCents", "chargeCents")
	contentURLNames   = foldNames("contentUrl", "contentUri", "contentLink", "contentHref", "downloadUrl", "fileUrl", "resultUrl", "outputUrl")
	textOutputNames   = foldNames("textOutput", "outputText")
	failureNames      = foldNames("failureMessage", "failureReason", "failReason", "errorMessage", "error", "failure", "reason", "statusMessage", "statusReason", "message", "detail")
	createTimeNames   = foldNames("createdAt", "createTime", "created", "creationTime", "queuedAt", "submittedAt")
	terminalTimeNames = foldNames("terminalTime", "finishedAt", "completedAt", "endedAt", "succeededAt", "failedAt", "refundedAt", "finishTime", "completeTime", "endTime")
	contentTypeNames  = foldNames("contentType", "mimeType", "mediaType")
	contentSizeNames  = foldNames("sizeBytes", "contentLength", "contentSize", "fileSize", "byteSize", "size", "bytes")
)

// states maps the catalog's statuses to states. A status is looked up in lower case, trimmed, and with '_' instead of '-' and
// spaces. A status that is not in this table is [StateUnrecognized], and polling continues. "canceled" is not in the table,
// because the specification does not define whether a canceled generation is refunded.
var states = map[string]State{
	"queued": StateQueued, "pending": StateQueued, "waiting": StateQueued, "created": StateQueued,
	"submitted": StateQueued, "accepted": StateQueued, "scheduled": StateQueued, "enqueued": StateQueued, "in_queue": StateQueued,

	"running": StateRunning, "processing": StateRunning, "in_progress": StateRunning, "inprogress": StateRunning,
	"started": StateRunning, "rendering": StateRunning, "generating": StateRunning,

	"succeeded": StateSucceeded, "success": StateSucceeded, "successful": StateSucceeded, "completed": StateSucceeded,
	"complete": StateSucceeded, "done": StateSucceeded, "finished": StateSucceeded,

	"failed": StateFailed, "failure": StateFailed, "error": StateFailed, "errored": StateFailed,

	"refunded": StateRefunded,
}

// errorStatuses contains statuses that, in the response to an order, describe the request and not a generation.
var errorStatuses = map[string]bool{"error": true, "errored": true, "failure": true}

// Amounts of money are integers, in cents. Names with "cents" have priority. A price is unreadable if two members of equal
// priority contain different amounts. Any amount is unreadable if the record's currency or unit is not euro cents.
var (
	balanceNames    = foldNames("balanceCents", "balance")
	priceCentsNames = foldNames("priceCents", "costCents", "amountCents", "totalCents", "quoteCents", "totalPriceCents", "totalCostCents", "estimatedCents", "estimatedCostCents", "estimatedPriceCents", "cents")
	priceNames      = foldNames("price", "cost", "amount", "total", "quote")
	currencyNames   = foldNames("currency", "currencyCode")
	unitNames       = foldNames("unit", "units")
	centUnits       = foldNames("cent", "cents", "eurocent", "eurocents", "ct")
)

// Names of the JSON members in a model's record.
var (
	modelNameNames   = foldNames("displayName", "name", "title", "label")
	descriptionNames = foldNames("description", "summary", "help", "helpText", "hint", "about")
	fieldListNames   = foldNames("fields", "inputFields", "inputs", "inputSchema", "schema", "parameters", "params", "input", "arguments")
	outputNames      = foldNames("output", "outputKind", "outputType", "kind", "type", "category", "modality", "produces", "resultType", "mediaType")
)

// outputKinds maps words to kinds of output. The last known word counts: "text-to-image" produces an image.
var outputKinds = map[string]OutputKind{
	"text": OutputText, "txt": OutputText, "chat": OutputText, "completion": OutputText, "llm": OutputText, "language": OutputText, "string": OutputText,

	"file": OutputFile, "image": OutputFile, "images": OutputFile, "picture": OutputFile, "photo": OutputFile, "video": OutputFile,
	"audio": OutputFile, "music": OutputFile, "speech": OutputFile, "voice": OutputFile, "sound": OutputFile, "animation": OutputFile,
	"3d": OutputFile, "mesh": OutputFile, "pdf": OutputFile, "document": OutputFile, "binary": OutputFile, "media": OutputFile,
}

// Names of the JSON members in the description of an input field.
var (
	fieldNameNames    = foldNames("key", "name", "field", "id", "param", "parameter")
	fieldLabelNames   = foldNames("displayName", "label", "title", "name", "caption")
	fieldTypeNames    = foldNames("type", "dataType", "valueType", "fieldType", "kind", "format", "widget")
	requiredNames     = foldNames("required", "isRequired", "mandatory")
	optionalNames     = foldNames("optional", "isOptional")
	defaultNames      = foldNames("default", "defaultValue", "initialValue")
	allowedNames      = foldNames("enum", "options", "allowedValues", "allowed", "values", "choices")
	allowedValueNames = foldNames("value", "const", "id", "key", "name")
	minimumNames      = foldNames("minimum", "min", "minValue")
	maximumNames      = foldNames("maximum", "max", "maxValue")
	propertiesNames   = foldNames("properties")
)

var fieldTypes = map[string]FieldType{
	"string": FieldString, "str": FieldString, "text": FieldString, "textarea": FieldString, "prompt": FieldString,
	"url": FieldString, "uri": FieldString, "email": FieldString, "enum": FieldString, "select": FieldString,
	"choice": FieldString, "color": FieldString, "colour": FieldString, "date": FieldString,

	"integer": FieldInteger, "int": FieldInteger, "int32": FieldInteger, "int64": FieldInteger, "long": FieldInteger,

	"number": FieldNumber, "float": FieldNumber, "double": FieldNumber, "decimal": FieldNumber, "slider": FieldNumber,

	"boolean": FieldBoolean, "bool": FieldBoolean, "checkbox": FieldBoolean, "toggle": FieldBoolean, "switch": FieldBoolean,

	"object": FieldObject, "map": FieldObject, "dict": FieldObject, "struct": FieldObject, "json": FieldObject,

	"array": FieldArray, "list": FieldArray, "multiselect": FieldArray,
}

// timeLayouts contains the accepted formats of times: RFC 3339, variants of it with a space instead of the T or without a zone,
// and the format of HTTP dates. A time without a zone is in UTC. A Unix time is also accepted, in seconds or milliseconds, as a
// number or a string.
var timeLayouts = []string{
	"2006-01-02T15:04:05.999999999Z07:00",
	"2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05.999999999",
	"Mon, 02 Jan 2006 15:04:05 GMT",
}

// The body of an error is an object, an object in a wrapper, or a line of text. The wrapper "data" may contain a copy of the
// order. Therefore, a code in this wrapper is ignored, and a message in it is used only if there is no other message.
var (
	errorWrappers    = foldNames("error", "err", "fault", "problem")
	dataWrapper      = "data"
	anyErrorWrapper  = append(foldNames(dataWrapper), errorWrappers...)
	errorCodeNames   = foldNames("code", "errorCode", "error", "errorType")
	errorTypeNames   = foldNames("type") // an error code, or a URL that ends with a code (RFC 9457)
	errorTextNames   = foldNames("message", "msg", "detail", "details", "description", "errorDescription", "errorMessage", "title", "reason", "error", "text")
	violationLists   = foldNames("details", "detail", "errors", "violations", "fieldViolations", "fieldErrors", "fields", "invalidParams", "invalidFields", "issues", "params")
	keyedByField     = foldNames("details", "errors", "violations", "fieldErrors", "fields", "invalidParams", "invalidFields")
	listsOfFields    = foldNames("fields", "invalidFields", "invalidParams", "params") // names of lists in which each string is the name of an invalid field
	violationFields  = foldNames("field", "fieldName", "param", "parameter", "property", "path", "pointer", "loc", "location", "name", "key")
	ownFieldNames    = foldNames("field", "fieldName", "param", "parameter", "property")
	violationTexts   = foldNames("message", "msg", "reason", "description", "detail", "error", "title", "code")
	notFieldNames    = foldNames("code", "message", "msg", "requestId", "traceId", "status", "statusCode", "hint", "docs", "help", "reason", "type", "timestamp", "path", "url", "description")
	modelFieldNames  = foldNames("modelId", "model")
	orderKeyNames    = foldNames("idempotencyKey")
	pathPrefixes     = foldNames("body", "request", "payload", "data", "query", "$", "#", "")
	inputsFieldNames = foldNames("inputs", "input")
)

// codes maps error codes to kinds. It contains only the codes that are more specific than the HTTP status.
var codes = map[string]Kind{
	"apikeydailycap":         KindDailyCap,
	"apikeydailycapreached":  KindDailyCap,
	"apikeydailycapexceeded": KindDailyCap,
}

// aboutKey is a part of every spelling of "idempotency key". An error code with this text means that the idempotency key
// belongs to another order. A message with this text means only that an order with the idempotency key may exist, because the
// message may repeat a prompt.
const aboutKey = "idempoten"

// modelCodes contains the error codes that show that a 404 concerns the model, and not the path.
var modelCodes = foldNames("modelNotFound", "unknownModel", "noSuchModel", "invalidModel", "modelUnknown", "modelUnavailable")

// contentCodes maps an error code of a content response to its kind. It contains only the codes that are more specific than the
// HTTP status.
var contentCodes = map[string]Kind{
	"nocontent": KindNoContent, "nofile": KindNoContent, "nocontentavailable": KindNoContent,
	"contentnotready": KindContentNotReady, "notready": KindContentNotReady, "generationnotready": KindContentNotReady,
}

// secretNames contains the names of members that are never stored. There is one exception: an object whose name is in keyNames
// describes an API key. It is stored, but without the members whose names are in keySecretNames.
var (
	secretNames = set(append(foldNames("apiKey", "key", "keyValue", "rawKey", "token", "accessToken", "apiToken", "bearer",
		"secret", "clientSecret", "authorization", "password", "credential", "credentials"), contentURLNames...))
	keyNames       = set(foldNames("apiKey", "key"))
	keySecretNames = set(foldNames("value", "text", "raw", "plain", "plaintext", "plainText", "full", "string", "hash"))
)
