package opensm

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// commentWidth is the length of a line of comment.
const commentWidth = 100

// WriteYAML writes a configuration file of Heddle: the settings of `heddle sm`, and a comment on
// every option of OpenSM. own are settings that come from elsewhere, such as state. The file has
// the keys, so nobody but its owner should read it.
func (im *Import) WriteYAML(w io.Writer, own []Assignment) error {
	var b strings.Builder
	comment(&b, "", "Made by 'heddle import opensm' from "+im.Conf.Name+". A setting that is not here has Heddle's default. "+
		"The comments name every option of OpenSM, with its value there.")
	b.WriteString("sm:\n")
	setting := func(a Assignment) { fmt.Fprintf(&b, "  %s: %s\n", a.Name, scalar(a.Text)) }
	for _, a := range own {
		setting(a)
	}
	written := map[string]bool{}
	for _, a := range own {
		written[a.Name] = true
	}
	for i := range im.Results {
		r := &im.Results[i]
		if r.Option.Vendor && !im.Conf.Given(r.Option.Name) {
			continue
		}
		comment(&b, "  ", r.comment())
		for _, a := range r.Settings {
			if !written[a.Name] {
				// Of two options of one setting the last has the value of both.
				setting(Assignment{a.Name, im.Values.Text(a.Name)})
				written[a.Name] = true
			}
		}
	}
	for _, u := range im.Conf.Unknown {
		comment(&b, "  ", fmt.Sprintf("%s %s: left out: neither OpenSM nor Heddle knows it", u.Name, u.Text))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// comment is the line about an option.
func (r *Result) comment() string {
	text := r.Option.Name + " " + r.Shown() + ": "
	switch r.Outcome {
	case Same:
		text += "as Heddle without a setting"
	case Set:
		var names []string
		for _, a := range r.Settings {
			if !slices.Contains(names, a.Name) {
				names = append(names, a.Name)
			}
		}
		text += "taken over as " + strings.Join(names, " and ")
	case Unneeded:
		text += "not needed"
	case LeftOut, Refused:
		text += "left out"
	}
	if r.Why != "" {
		text += ": " + r.Why
	}
	return text
}

// comment writes text as lines of comment.
func comment(b *strings.Builder, indent, text string) {
	line := indent + "#"
	for w := range strings.FieldsFuncSeq(text, func(r rune) bool { return r <= ' ' || r == 0x7F }) {
		if len(line)+1+len(w) > commentWidth && len(line) > len(indent)+1 {
			b.WriteString(line + "\n")
			line = indent + "#  "
		}
		line += " " + w
	}
	b.WriteString(line + "\n")
}

// simple is a text that YAML reads as it stands.
var simple = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)

// scalar is a value in YAML.
func scalar(s string) string {
	if simple.MatchString(s) && !slices.Contains([]string{"on", "off", "yes", "no", "y", "n", "null"}, s) {
		return s
	}
	return strconv.Quote(s)
}
