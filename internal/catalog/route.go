package catalog

// The routes, as they stand in Error.Op and in http.Request.Pattern.
const (
	opAccount     = "GET /me"
	opModels      = "GET /models"
	opModel       = "GET /models/detail"
	opQuote       = "POST /quote"
	opCreate      = "POST /generations"
	opGenerations = "GET /generations"
	opGeneration  = "GET /generations/{id}"
	opContent     = "GET /generations/{id}/content"
	opDelete      = "DELETE /generations/{id}"
)
