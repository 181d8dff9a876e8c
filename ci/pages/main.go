// Command pages opens reports in a browser without a screen, as people will: on a wide window, a
// narrow one and a phone, light and dark, and on paper. It fails if a page writes to the console,
// scrolls sideways, has its verdict below the first screen or the first sheet, or takes a second
// and more to open. With --pictures it keeps what was seen.
//
//	go run ./ci/pages [--pictures DIR] FILE...
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"html"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pictures := flag.String("pictures", "", "`folder` for pictures of the first screens")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "pages: name the reports to open")
		return 2
	}
	browser, err := exec.LookPath("chromium")
	if err != nil {
		browser, err = exec.LookPath("google-chrome")
	}
	_, noPDF := exec.LookPath("pdftotext")
	if err != nil || noPDF != nil {
		fmt.Fprintln(os.Stderr, "pages: no chromium or no pdftotext: sudo ci/host/prepare.sh --pages")
		return 2
	}
	bad := 0
	for _, file := range flag.Args() {
		for _, s := range screens() {
			seen, err := s.look(ctx, browser, file)
			if err == nil && s == screens()[0] {
				seen.took, err = s.opening(ctx, browser, file)
			}
			if err == nil && *pictures != "" {
				err = s.picture(ctx, browser, file, *pictures)
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, "pages:", err)
				return 2
			}
			fmt.Printf("%-60s %s\n", filepath.Join(filepath.Base(filepath.Dir(file)), filepath.Base(file))+" at "+s.String(), seen)
			if !seen.ok() {
				bad++
			}
		}
		said, ok, err := onPaper(ctx, browser, file, *pictures)
		if err != nil {
			fmt.Fprintln(os.Stderr, "pages:", err)
			return 2
		}
		fmt.Printf("%-60s %s\n", filepath.Join(filepath.Base(filepath.Dir(file)), filepath.Base(file))+" on paper", said)
		if !ok {
			bad++
		}
	}
	if bad > 0 {
		fmt.Fprintf(os.Stderr, "pages: %d of the screens are not as they should be\n", bad)
		return 1
	}
	return 0
}

// screen is what a page is looked at on.
type screen struct {
	width, height int
	dark          bool
}

func screens() (all []screen) {
	for _, size := range [][2]int{{1400, 900}, {800, 1000}, {390, 844}} {
		all = append(all, screen{size[0], size[1], false}, screen{size[0], size[1], true})
	}
	return all
}

func (s screen) String() string {
	if s.dark {
		return fmt.Sprintf("%dx%d, dark", s.width, s.height)
	}
	return fmt.Sprintf("%dx%d", s.width, s.height)
}

// seen is what a browser says of a page.
type seen struct {
	sideways, verdict string        // pixels beyond the window; where the verdict ends
	took              time.Duration // to open it, less an empty one; 0: not measured
	height            int
	console           []string
}

func (s seen) ok() bool {
	var beyond, verdict float64
	_, err := fmt.Sscan(s.sideways+" "+s.verdict, &beyond, &verdict)
	return err == nil && beyond <= 0 && verdict > 0 && verdict <= float64(s.height) && s.took < time.Second && len(s.console) == 0
}

func (s seen) String() string {
	text := fmt.Sprintf("%s px beyond the window, verdict down to %s px", s.sideways, s.verdict)
	if s.took != 0 {
		text += fmt.Sprintf(", opens in %d ms more than an empty page", s.took.Milliseconds())
	}
	if len(s.console) > 0 {
		text += "; console: " + strings.Join(s.console, " | ")
	}
	if !s.ok() {
		text = "BAD: " + text
	}
	return text
}

// around is a page that holds another of the window's size, and writes down what it is like.
const around = `<!DOCTYPE html><style>body { margin:0 } iframe { border:0; width:%dpx; height:%dpx; display:block }</style>
<pre id="seen"></pre><iframe id="page" src=%q onload="look(this.contentDocument)"></iframe><script>
function look(page) {
  const d = page.documentElement, h = page.querySelector("h1");
  document.getElementById("seen").textContent = "seen " + (d.scrollWidth - d.clientWidth) + " " + h.getBoundingClientRect().bottom.toFixed(0);
}
</script>`

var said = regexp.MustCompile(`seen (-?[0-9.]+) (-?[0-9.]+)`)

func (s screen) look(ctx context.Context, browser, file string) (seen, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return seen{}, fmt.Errorf("find %s: %w", file, err)
	}
	dir, err := os.MkdirTemp("", "pages-")
	if err != nil {
		return seen{}, fmt.Errorf("make a folder for the browser: %w", err)
	}
	defer os.RemoveAll(dir)
	frame := filepath.Join(dir, "around.html")
	if err := os.WriteFile(frame, fmt.Appendf(nil, around, s.width, s.height, "file://"+path), 0o644); err != nil {
		return seen{}, fmt.Errorf("frame %s: %w", file, err)
	}
	out, log, err := s.browse(ctx, browser, dir, "--allow-file-access-from-files", "--dump-dom", "file://"+frame)
	if err != nil {
		return seen{}, fmt.Errorf("open %s: %w", file, err)
	}
	m := said.FindStringSubmatch(html.UnescapeString(out))
	if m == nil {
		return seen{}, fmt.Errorf("open %s: the browser does not tell what it saw", file)
	}
	result := seen{sideways: m[1], verdict: m[2], height: s.height}
	for line := range strings.Lines(log) {
		if strings.Contains(line, ":CONSOLE:") || strings.Contains(line, "CONSOLE(") {
			result.console = append(result.console, strings.TrimSpace(line))
		}
	}
	return result, nil
}

// opening is how much longer the browser takes for a page than for an empty one, medians of three in
// turn.
func (s screen) opening(ctx context.Context, browser, file string) (time.Duration, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return 0, fmt.Errorf("find %s: %w", file, err)
	}
	var took [2][]time.Duration
	for range 3 {
		for i, address := range []string{"file://" + path, "data:text/html,<h1>empty</h1>"} {
			dir, err := os.MkdirTemp("", "pages-")
			if err != nil {
				return 0, fmt.Errorf("make a folder for the browser: %w", err)
			}
			began := time.Now()
			_, _, err = s.browse(ctx, browser, dir, "--dump-dom", address)
			took[i] = append(took[i], time.Since(began))
			if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
				return 0, fmt.Errorf("open %s: %w", address, err)
			}
		}
	}
	slices.Sort(took[0])
	slices.Sort(took[1])
	return took[0][1] - took[1][1], nil
}

func (s screen) picture(ctx context.Context, browser, file, to string) error {
	path, err := filepath.Abs(file)
	if err != nil {
		return fmt.Errorf("find %s: %w", file, err)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return fmt.Errorf("keep pictures: %w", err)
	}
	dir, err := os.MkdirTemp("", "pages-")
	if err != nil {
		return fmt.Errorf("make a folder for the browser: %w", err)
	}
	defer os.RemoveAll(dir)
	name := fmt.Sprintf("%s-%d", filepath.Base(filepath.Dir(path)), s.width)
	if s.dark {
		name += "-dark"
	}
	_, _, err = s.browse(ctx, browser, dir, "--hide-scrollbars", "--screenshot="+filepath.Join(to, name+".png"), "file://"+path)
	if err != nil {
		return fmt.Errorf("take a picture of %s: %w", file, err)
	}
	return nil
}

// browse runs the browser on one page, in a profile of its own.
func (s screen) browse(ctx context.Context, browser, dir string, args ...string) (out, log string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	all := []string{"--headless=new", "--disable-gpu", "--no-first-run", "--user-data-dir=" + filepath.Join(dir, "profile"),
		"--enable-logging=stderr", fmt.Sprintf("--window-size=%d,%d", s.width, s.height)}
	if os.Geteuid() == 0 {
		all = append(all, "--no-sandbox") // it refuses to run as root with one
	}
	if s.dark {
		all = append(all, "--blink-settings=preferredColorScheme=0")
	}
	cmd := exec.CommandContext(ctx, browser, append(all, args...)...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", exit, lastLine(stderr.String()))
	}
	return stdout.String(), stderr.String(), err
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
