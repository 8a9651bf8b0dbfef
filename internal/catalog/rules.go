package catalog

// The reading rules. The specification leaves many spellings open, so each member is
// looked for under the names of a table, the first readable one wins, and a new
// spelling is one more word. Names are compared without case, '_' and '-': costCents
// stands for cost_cents, CostCents and cost-cents too.

// Lists: the body is an array, or an object with one of these, or with one array.
var (
	modelListNames      = names("models", "data", "items", "results", "list", "records", "entries", "catalog")
	generationListNames = names("generations", "data", "items", "results", "list", "records", "entries", "renders", "jobs")
)

// Records: the body is the record, or an object that wraps it under one of these.
var (
	accountWrappers    = names("account", "key", "apiKey", "me", "user", "data", "result", "item", "response", "payload")
	modelWrappers      = names("model", "data", "result", "item", "record", "response", "payload")
	generationWrappers = names("generation", "render", "job", "data", "result", "item", "record", "response", "payload")
	quoteWrappers      = names("quote", "price", "cost", "data", "result", "response", "payload")
)

// The account behind an API key is named by one of these, or by the id of one of these objects. A user is none: two of
// one organization have API keys of one account.
var (
	accountIDNames = names("accountId", "organizationId", "workspaceId", "customerId")
	accountHolders = names("account", "organization", "workspace", "customer")
	ownerIDNames   = names("id", "uuid", "_id")
)

// Identifiers are strings or integers; integers are kept digit for digit.
var (
	generationIDNames = names("id", "generationId", "renderId", "jobId", "uuid", "_id")
	modelIDNames      = names("id", "modelId", "slug", "model", "key", "name")
)

// Members of a generation.
var (
	statusNames       = names("status", "state")
	modelOfNames      = names("modelId", "model", "modelSlug")
	inputsNames       = names("inputs", "input")
	costNames         = names("costCents", "chargedCents", "chargeCents")
	contentURLNames   = names("contentUrl", "contentUri", "contentLink", "contentHref", "downloadUrl", "fileUrl", "resultUrl", "outputUrl")
	textOutputNames   = names("textOutput", "outputText")
	failureNames      = names("failureMessage", "failureReason", "failReason", "errorMessage", "error", "failure", "reason", "statusMessage", "statusReason", "message", "detail")
	createTimeNames   = names("createdAt", "createTime", "created", "creationTime", "queuedAt", "submittedAt")
	terminalTimeNames = names("terminalTime", "finishedAt", "completedAt", "endedAt", "succeededAt", "failedAt", "refundedAt", "finishTime", "completeTime", "endTime")
	contentTypeNames  = names("contentType", "mimeType", "mediaType")
	contentSizeNames  = names("sizeBytes", "contentLength", "contentSize", "fileSize", "byteSize", "size", "bytes")
)

// Statuses are trimmed, in lower case, with '_' for '-' and blanks. A word that is not
// here is [StateUnrecognized]: polling goes on. "canceled" is left out on purpose, as
// the specification does not say whether its price is refunded.
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

// errorStatuses are words of those with which an answer to an order speaks of the request, and not of a generation.
var errorStatuses = map[string]bool{"error": true, "errored": true, "failure": true}

// Money: only whole numbers of cents, written in digits. A name with "cents" beats one
// without; two names of the same rank that disagree make the amount unreadable, and so
// does a currency or unit that is not of euro cents.
var (
	balanceNames    = names("balanceCents", "balance")
	priceCentsNames = names("priceCents", "costCents", "amountCents", "totalCents", "quoteCents", "totalPriceCents", "totalCostCents", "estimatedCents", "estimatedCostCents", "estimatedPriceCents", "cents")
	priceNames      = names("price", "cost", "amount", "total", "quote")
	currencyNames   = names("currency", "currencyCode")
	unitNames       = names("unit", "units")
	centUnits       = names("cent", "cents", "eurocent", "eurocents", "ct")
)

// Members of a model.
var (
	modelNameNames   = names("displayName", "name", "title", "label")
	descriptionNames = names("description", "summary", "help", "helpText", "hint", "about")
	fieldListNames   = names("fields", "inputFields", "inputs", "inputSchema", "schema", "parameters", "params", "input", "arguments")
	outputNames      = names("output", "outputKind", "outputType", "kind", "type", "category", "modality", "produces", "resultType", "mediaType")
)

// outputKinds are the kinds of output by the last known word: "text-to-image" is an image.
var outputKinds = map[string]OutputKind{
	"text": OutputText, "txt": OutputText, "chat": OutputText, "completion": OutputText, "llm": OutputText, "language": OutputText, "string": OutputText,

	"file": OutputFile, "image": OutputFile, "images": OutputFile, "picture": OutputFile, "photo": OutputFile, "video": OutputFile,
	"audio": OutputFile, "music": OutputFile, "speech": OutputFile, "voice": OutputFile, "sound": OutputFile, "animation": OutputFile,
	"3d": OutputFile, "mesh": OutputFile, "pdf": OutputFile, "document": OutputFile, "binary": OutputFile, "media": OutputFile,
}

// Members of an input field.
var (
	fieldNameNames    = names("key", "name", "field", "id", "param", "parameter")
	fieldLabelNames   = names("displayName", "label", "title", "name", "caption")
	fieldTypeNames    = names("type", "dataType", "valueType", "fieldType", "kind", "format", "widget")
	requiredNames     = names("required", "isRequired", "mandatory")
	optionalNames     = names("optional", "isOptional")
	defaultNames      = names("default", "defaultValue", "initialValue")
	allowedNames      = names("enum", "options", "allowedValues", "allowed", "values", "choices")
	allowedValueNames = names("value", "const", "id", "key", "name")
	minimumNames      = names("minimum", "min", "minValue")
	maximumNames      = names("maximum", "max", "maxValue")
	propertiesNames   = names("properties")
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

// Times are RFC 3339 with or without a zone (then UTC), or a Unix time in seconds or
// milliseconds, as a number or in a string.
var timeLayouts = []string{
	"2006-01-02T15:04:05.999999999Z07:00",
	"2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05.999999999",
	"Mon, 02 Jan 2006 15:04:05 GMT",
}

// Errors: an object, plain or under one wrapper, or a line of text. An object under the data
// wrapper may echo the request, so the members of the object around it count more.
var (
	errorWrappers    = names("error", "err", "fault", "problem")
	dataWrapper      = "data"
	anyErrorWrapper  = append(names(dataWrapper), errorWrappers...)
	errorCodeNames   = names("code", "errorCode", "error", "errorType")
	errorTypeNames   = names("type") // a code, or an address that ends in one (RFC 9457)
	errorTextNames   = names("message", "msg", "detail", "details", "description", "errorDescription", "errorMessage", "title", "reason", "error", "text")
	violationLists   = names("details", "detail", "errors", "violations", "fieldViolations", "fieldErrors", "fields", "invalidParams", "invalidFields", "issues", "params")
	keyedByField     = names("details", "errors", "violations", "fieldErrors", "fields", "invalidParams", "invalidFields")
	listsOfFields    = names("fields", "invalidFields", "invalidParams", "params") // of names, where a list is one of texts
	violationFields  = names("field", "fieldName", "param", "parameter", "property", "path", "pointer", "loc", "location", "name", "key")
	ownFieldNames    = names("field", "fieldName", "param", "parameter", "property")
	violationTexts   = names("message", "msg", "reason", "description", "detail", "error", "title", "code")
	notFieldNames    = names("code", "message", "msg", "requestId", "traceId", "status", "statusCode", "hint", "docs", "help", "reason", "type", "timestamp", "path", "url", "description")
	modelFieldNames  = names("modelId", "model")
	orderKeyNames    = names("idempotencyKey")
	pathPrefixes     = names("body", "request", "payload", "data", "query", "$", "#", "")
	inputsFieldNames = names("inputs", "input")
)

// codes are the codes of the catalog that say more than their status.
var codes = map[string]Kind{
	"apikeydailycap":         KindDailyCap,
	"apikeydailycapreached":  KindDailyCap,
	"apikeydailycapexceeded": KindDailyCap,
}

// aboutKey stands in each refusal of an order for its idempotency key, however it is spelled: there may be an order under
// it. In a code it says that the key stands for another one; a text may echo a prompt.
const aboutKey = "idempoten"

// modelCodes are codes of a 404 that is about the model and not about the path.
var modelCodes = names("modelNotFound", "unknownModel", "noSuchModel", "invalidModel", "modelUnknown", "modelUnavailable")

// contentCodes are codes of a content request that say more than their status.
var contentCodes = map[string]Kind{
	"nocontent": KindNoContent, "nofile": KindNoContent, "nocontentavailable": KindNoContent,
	"contentnotready": KindContentNotReady, "notready": KindContentNotReady, "generationnotready": KindContentNotReady,
}

// secretNames are members that are never kept, whatever they hold, except an object under one of keyNames,
// which describes an API key. Of that object the members in keySecretNames are not kept either.
var (
	secretNames = set(append(names("apiKey", "key", "keyValue", "rawKey", "token", "accessToken", "apiToken", "bearer",
		"secret", "clientSecret", "authorization", "password", "credential", "credentials"), contentURLNames...))
	keyNames       = set(names("apiKey", "key"))
	keySecretNames = set(names("value", "text", "raw", "plain", "plaintext", "plainText", "full", "string", "hash"))
)
