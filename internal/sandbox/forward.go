package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// forward passes on one unencrypted request, and its answer, which may come
// before the body is through.
func forward(c, out net.Conn, r *request, in *bufio.Reader) {
	if _, err := io.WriteString(out, r.head()); err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var err error
		if r.length < 0 {
			err = copyChunks(out, in)
		} else {
			_, err = io.CopyN(out, in, r.length)
		}
		if err != nil {
			out.Close() // half a request is none
		}
	}()
	_, _ = io.Copy(c, out)
	closeWrite(c)
	c.Close()
	out.Close()
	<-done
}

// copyChunks passes on a body in chunks up to its end, and not a byte more.
// What comes with a chunk besides, and behind the last one, is left out.
func copyChunks(out io.Writer, in *bufio.Reader) error {
	for {
		line, err := readLine(in)
		if err != nil {
			return err
		}
		size, _, _ := strings.Cut(line, ";")
		size = strings.TrimRight(size, " \t")
		n, err := strconv.ParseUint(size, 16, 62)
		if err != nil || strings.Trim(strings.ToLower(size), "0123456789abcdef") != "" {
			return fmt.Errorf("the length of a chunk is no number: %q", size)
		}
		if n == 0 {
			break
		}
		if _, err := fmt.Fprintf(out, "%x\r\n", n); err != nil {
			return err
		}
		if _, err := io.CopyN(out, in, int64(n)); err != nil {
			return err
		}
		if line, err := readLine(in); err != nil || line != "" {
			return errors.Join(errors.New("a chunk does not end where it should"), err)
		}
		if _, err := io.WriteString(out, "\r\n"); err != nil {
			return err
		}
	}
	for range 100 {
		line, err := readLine(in)
		if err != nil {
			return err
		}
		if line == "" {
			_, err := io.WriteString(out, "0\r\n\r\n")
			return err
		}
	}
	return errors.New("too much stands behind the last chunk")
}

// readLine is a short line without its end.
func readLine(in *bufio.Reader) (string, error) {
	b, err := in.ReadSlice('\n')
	line, ok := strings.CutSuffix(string(b), "\r\n")
	if err == nil && !ok {
		err = errors.New("a line does not end with CR LF")
	}
	return line, err
}
