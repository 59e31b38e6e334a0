//! The rate-limit headers of responses.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use latchmail_core::rate_limit::RateLimitStatus;

/// The header with the maximum number of requests per minute.
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// The header with the number of requests that the client can send immediately.
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// The header with the time at which the bucket is full, in seconds since the Unix epoch.
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Sets the rate-limit headers of a response. A handler can set the headers of another bucket. In
/// this case, the headers of the bucket with fewer remaining requests apply, because the client
/// reaches the limit of this bucket first.
pub(crate) fn write(status: RateLimitStatus, headers: &mut HeaderMap) {
    let present = headers
        .get(REMAINING)
        .and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
    if present.is_none_or(|present| status.remaining < present) {
        for (name, value) in headers_of(status) {
            headers.insert(name, value);
        }
    }
}

/// Returns the headers of a 429 response.
pub(crate) fn rejection_headers(status: RateLimitStatus) -> Vec<(HeaderName, HeaderValue)> {
    let seconds = status.retry_after.unwrap_or(1);
    [(header::RETRY_AFTER, seconds.into())]
        .into_iter()
        .chain(headers_of(status))
        .collect()
}

fn headers_of(status: RateLimitStatus) -> [(HeaderName, HeaderValue); 3] {
    [
        (LIMIT, status.limit.into()),
        (REMAINING, status.remaining.into()),
        (RESET, status.reset.into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(remaining: u32) -> RateLimitStatus {
        RateLimitStatus {
            limit: 5,
            remaining,
            reset: 0,
            retry_after: None,
        }
    }

    #[test]
    fn the_headers_are_of_the_bucket_with_fewer_remaining_requests() {
        for (first, second) in [(3, 4), (4, 3), (3, 3)] {
            let mut headers = HeaderMap::new();
            write(status(first), &mut headers);
            write(status(second), &mut headers);
            assert_eq!(headers[REMAINING], "3");
            assert_eq!(headers.len(), 3);
        }
    }

    #[test]
    fn a_429_response_has_all_headers() {
        let headers = rejection_headers(RateLimitStatus {
            retry_after: Some(12),
            ..status(0)
        });
        let names: Vec<_> = headers.iter().map(|(name, _)| name).collect();
        assert_eq!(names, [&header::RETRY_AFTER, &LIMIT, &REMAINING, &RESET]);
        assert_eq!(headers[0].1, "12");
    }
}
