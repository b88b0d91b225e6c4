package jetstream

import "context"

// Usage tells how many bytes the log has, and may have. It may be of a moment ago.
func (l *Log) Usage(ctx context.Context) (used, most uint64, err error) {
	info, err := l.stream.Info(ctx)
	if err != nil {
		return 0, 0, err
	}
	return info.State.Bytes, uint64(max(info.Config.MaxBytes, 0)), nil
}
