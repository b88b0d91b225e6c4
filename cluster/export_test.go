package cluster

// Lax lets the apply rule of a member take every record.
func Lax(o *Options) { o.lax = true }

// Padless leaves out the pads of a take-over.
func Padless(o *Options) { o.padless = true }

// SmallParts cuts Changes into parts of that many bytes.
func SmallParts(o *Options, n int) { o.partBytes = n }

// Hasty lets a standby take over while the lease of the primary runs.
func Hasty(o *Options) { o.silencePerMille = 200 }

// Overstaying lets a primary answer when its lease may have been taken.
func Overstaying(o *Options) { o.coverPerMille = 3000 }
