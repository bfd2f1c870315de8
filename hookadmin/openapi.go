package hookadmin

import (
	_ "embed"
	"encoding/json"
	"net/http"
)

// openAPI describes the API without the pages of the dashboard. A test compares it with the
// handler.
//
//go:embed openapi.json
var openAPI []byte

func (h *handler) showOpenAPI(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, json.RawMessage(openAPI))
}
