package catalog

// OpCreate is the route of an order, as it stands in Error.Op and in http.Request.Pattern.
const OpCreate = "POST /generations"

// The other routes.
const (
	opAccount     = "GET /me"
	opModels      = "GET /models"
	opModel       = "GET /models/detail"
	opQuote       = "POST /quote"
	opGenerations = "GET /generations"
	opGeneration  = "GET /generations/{id}"
	opContent     = "GET /generations/{id}/content"
	opDelete      = "DELETE /generations/{id}"
)
