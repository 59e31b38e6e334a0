//! `[redis]`: the Redis server with the rate limits that several hosts share.

use std::fmt;

use serde::Deserialize;
use url::Url;

use crate::error::StartError;
use crate::network::is_local;

/// The section `[redis]` of the configuration.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Redis {
    /// The URL of the server: `redis://HOST:PORT/DATABASE`, `rediss://…` with TLS, or `unix:/PATH`.
    /// If empty, each host has its own rate limits. The URL may contain a password, so `Debug` does
    /// not show it.
    pub url: String,
    /// Whether an unencrypted connection to another machine is allowed.
    pub insecure: bool,
}

impl Redis {
    /// Checks the form of the URL. Errors do not contain the URL, because it may contain a
    /// password.
    pub(super) fn check(&self) -> Result<(), StartError> {
        if self.url.is_empty() {
            return Ok(());
        }
        let url = Url::parse(&self.url)
            .map_err(|reason| StartError::new(format!("`redis.url` is not a URL: {reason}")))?;
        if url.fragment().is_some() {
            return Err(StartError::new(
                "`redis.url` contains `#`; in a password, write `%23` instead",
            ));
        }
        let host = url.host_str().unwrap_or_default();
        let is_valid = match url.scheme() {
            "redis" | "rediss" | "valkey" | "valkeys" => !host.is_empty(),
            "unix" | "redis+unix" | "valkey+unix" => host.is_empty() && url.path().len() > 1,
            _ => false,
        };
        if !is_valid {
            return Err(StartError::new(
                "`redis.url` must have the form redis://HOST:PORT/DATABASE, rediss://HOST:PORT/DATABASE or unix:/PATH",
            ));
        }
        let is_plain = matches!(url.scheme(), "redis" | "valkey");
        if is_plain && !is_local(host) && !self.insecure {
            return Err(StartError::new(format!(
                "the host of `redis.url` is {host}, another machine, and the connection is not encrypted; use a URL that starts with `rediss:`, or set `redis.insecure = true` to allow this"
            )));
        }
        Ok(())
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("insecure", &self.insecure)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::Config;

    fn refusal(settings: &str) -> Option<String> {
        let parsed = Config::parse(settings, "test", HashMap::new());
        parsed.err().map(|e| e.to_string())
    }

    #[test]
    fn local_sockets_local_ports_and_encrypted_connections_are_accepted() {
        for url in [
            "",
            "redis://127.0.0.1",
            "redis://localhost:6379/3",
            "redis://user:s3cret@[::1]:6379",
            "valkey://127.0.0.1:6379",
            "rediss://:s3cret@redis.example.com:6380/1",
            "valkeys://redis.example.com",
            "unix:/run/redis/redis.sock",
            "unix:///run/redis/redis.sock?db=2&pass=s3cret",
            "redis+unix:///run/redis/redis.sock",
        ] {
            assert_eq!(refusal(&format!("redis.url = '{url}'")), None, "{url}");
        }
        let insecure = "redis.url = 'redis://192.0.2.1'\nredis.insecure = true";
        assert_eq!(refusal(insecure), None);
    }

    #[test]
    fn other_urls_are_refused_without_their_password() {
        for (url, reason) in [
            ("127.0.0.1:6379", "redis.url"),
            ("http://:s3cret@127.0.0.1", "redis.url"),
            ("redis:///3", "redis.url"),
            ("unix:", "redis.url"),
            ("unix://s3cret", "redis.url"),
            ("redis://:s3#cret@127.0.0.1", "redis.url"),
            ("rediss://:s3cret@redis.example.com#insecure", "%23"),
            ("redis://:s3cret@192.0.2.1", "redis.insecure"),
            ("redis://:s3cret@redis.example.com", "redis.insecure"),
        ] {
            let sentence = refusal(&format!("redis.url = '{url}'"));
            let sentence = sentence.unwrap_or_else(|| panic!("{url} is accepted"));
            assert!(sentence.contains(reason), "{sentence}");
            assert!(!sentence.contains("s3"), "{sentence}");
        }
    }

    #[test]
    fn an_environment_variable_sets_the_url() {
        let variable = (
            "LATCHMAIL_REDIS__URL".into(),
            "redis://127.0.0.1:6379".into(),
        );
        let config = Config::parse("", "test", HashMap::from([variable])).unwrap();
        assert_eq!(config.redis.url, "redis://127.0.0.1:6379");
        assert!(!format!("{config:?}").contains("6379"));
    }
}
