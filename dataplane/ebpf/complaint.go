package ebpf

import "log/slog"

// complaint is what may be wrong for long where somebody looks often: it is said when it begins, or changes,
// and not each time.
type complaint struct {
	log   *slog.Logger
	about string
	said  string
}

// say tells of an error unless that is the one of the time before; nil ends it.
func (c *complaint) say(err error) {
	if err == nil {
		c.said = ""
		return
	}
	if text := err.Error(); text != c.said {
		c.said = text
		c.log.Warn(c.about, "err", err)
	}
}
