package api

import "net/http"

// backup sends the stored state. It holds M_Keys, so the table of access demands an administrator.
func backup(b Journal) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		out := &begun{ResponseWriter: w}
		if err := b.Backup(out); err != nil {
			if !out.yes {
				w.Header().Del("Content-Disposition")
				refuse(w, http.StatusInternalServerError, err.Error())
			}
			return // without its last line the reader refuses it
		}
	}
}

// begun is a response with the headers of a backup from its first byte on.
type begun struct {
	http.ResponseWriter
	yes bool
}

func (b *begun) Write(p []byte) (int, error) {
	if !b.yes {
		b.yes = true
		b.Header().Set("Content-Type", "application/jsonl")
		b.Header().Set("Content-Disposition", `attachment; filename="heddle-backup.jsonl"`)
		b.Header().Set("Cache-Control", "no-store")
	}
	return b.ResponseWriter.Write(p)
}
