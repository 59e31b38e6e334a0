//! The result of counting a request towards a rate limit.

/// The state of a bucket after a request was counted (specification, section 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The limit, in requests per minute.
    pub limit: u32,
    /// The number of requests that would be accepted now; 0 if this request was rejected.
    pub remaining: u32,
    /// When the bucket is full again, in seconds since the Unix epoch.
    pub reset: i64,
    /// If this request was rejected: the seconds until a request is accepted, at least 1.
    pub retry_after: Option<u64>,
}
