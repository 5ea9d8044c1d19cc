package main

import (
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"heddle/api"
)

func ctlWebhooks() *cobra.Command {
	c := ctlCommand("webhooks", "The targets of webhooks: what each has received, what waits, and the last error", http.MethodGet, "/v1/webhooks", printWebhooks)
	c.Long = `Lists the targets of --webhooks. STATE is ok; failing; open: after 5 failures in a
row there is one attempt at the end of each pause; or gone: the target answered 410,
and gets no event until the settings are read again. EVENTS is the number of the
newest event that the target has, or did not want. Of a URL only the host is shown.`
	return c
}

// printWebhooks is a table of targets.
func printWebhooks(w io.Writer, body []byte) error {
	return printList(w, body, "no targets of webhooks (--webhooks)", "NAME\tSTATE\tHOST\tEVENTS\tWAITING\tSENT\tFAILED\tDROPPED\tERROR", func(t io.Writer, x *api.Webhook) {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\n", plain(x.Name), x.State, plain(x.Host), x.Acknowledged, x.Waiting, x.Sent, x.Failed, x.Dropped, plain(x.Error))
	})
}
