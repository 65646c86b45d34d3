package fleet

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
)

// away reports whether the server did not answer, or cannot at this moment: asking again may help.
func away(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	said, ok := errors.AsType[serviceerror.ServiceError](err)
	if !ok {
		return false
	}
	switch said.Status().Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Aborted, codes.Internal, codes.Canceled:
		return true
	}
	return false
}

// mostWait is how long a server that is away is left alone before it is asked again.
const mostWait = 10 * time.Second

// patiently asks the server until it answers or ctx ends: an attempt does not end because the server is away for a while.
func patiently(ctx context.Context, ask func() error) error {
	for wait := time.Second; ; wait = min(2*wait, mostWait) {
		err := ask()
		if err == nil || !away(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}
