//! Rate limits that several hosts share, in Redis or Valkey.
//!
//! [`RedisBudgets`] implements [`SharedBudgets`]: each request needs one round trip. If the server
//! does not respond in time, the hosts use their own budgets until the server responds again. This
//! crate does not select the limits and the keys of requests.

mod scripts;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use latchmail_core::config;
use latchmail_core::error::StartError;
use latchmail_core::limits::{BoxFuture, SharedBudget, SharedBudgets, Taken};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError, Script};
use tokio::time::{sleep, timeout};

pub use self::scripts::{GIVE_BACK, TAKE};

/// The maximum time for which a request waits for the server.
pub const TIMEOUT: Duration = Duration::from_millis(200);

/// The maximum time to connect to the server. No request waits for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The interval at which the server is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The prefix of all keys in the server.
const PREFIX: &str = "latchmail:";

/// The reason why the server is unavailable. The text does not contain the password of the URL.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server did not respond in time.
    #[error("no response within {0:?}")]
    Timeout(Duration),
    /// The connection failed, or the server returned an error.
    #[error("{0}")]
    Failed(#[from] RedisError),
    /// The server returned a value that the scripts do not return.
    #[error("unexpected response of the server")]
    UnexpectedResponse,
}

/// Budgets in a Redis or Valkey server.
pub struct RedisBudgets {
    client: Client,
    /// `None` while the server is unavailable.
    connection: ArcSwapOption<MultiplexedConnection>,
    /// Whether the server was available at the last log line about the server.
    reported: AtomicBool,
    take: Script,
    give_back: Script,
}

impl RedisBudgets {
    /// Creates the budgets. Returns `None` if no server is configured. Does not connect.
    ///
    /// # Errors
    /// Returns an error that names the configuration key if the URL is invalid.
    pub fn new(config: &config::Redis) -> Result<Option<Self>, StartError> {
        if config.url.is_empty() {
            return Ok(None);
        }
        // The error does not contain the URL.
        let client = Client::open(config.url.as_str())
            .map_err(|error| StartError::new(format!("`redis.url` is invalid: {error}")))?;
        Ok(Some(Self {
            client,
            connection: ArcSwapOption::empty(),
            reported: AtomicBool::new(true),
            take: Script::new(scripts::TAKE),
            give_back: Script::new(scripts::GIVE_BACK),
        }))
    }

    /// Connects to the server if a server is configured. If the server is unavailable, hosts use
    /// their own budgets until [`run`](Self::run) connects.
    ///
    /// # Errors
    /// Returns an error that names the configuration key if the URL is invalid.
    pub async fn start(config: &config::Redis) -> Result<Option<Arc<Self>>, StartError> {
        let Some(budgets) = Self::new(config)? else {
            return Ok(None);
        };
        match budgets.check().await {
            Ok(_) => tracing::info!(server = %budgets.server(), "hosts share rate limits"),
            Err(error) => budgets.report(Some(&error)),
        }
        Ok(Some(Arc::new(budgets)))
    }

    /// Checks the server periodically, and connects again after a failure. Never returns.
    pub async fn run(self: Arc<Self>) {
        loop {
            sleep(CHECK_INTERVAL).await;
            if let Err(error) = self.check().await {
                self.report(Some(&error));
            } else {
                self.report(None);
            }
        }
    }

    /// Returns the address of the server, without the password.
    #[must_use]
    pub fn server(&self) -> String {
        self.client.get_connection_info().addr().to_string()
    }

    /// Checks that the server executes the script that counts requests. Connects first if there is
    /// no connection. Returns the time of one round trip.
    ///
    /// # Errors
    /// Returns the reason why the server is unavailable.
    pub async fn check(&self) -> Result<Duration, Error> {
        if let Some(connection) = self.connection.load_full() {
            return self.probe(&connection).await;
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None);
        let connect = self
            .client
            .get_multiplexed_async_connection_with_config(&config);
        let connection = timeout(CONNECT_TIMEOUT, connect)
            .await
            .map_err(|_| Error::Timeout(CONNECT_TIMEOUT))??;
        let connection = Arc::new(connection);
        // The first probe also loads the script.
        self.probe(&connection).await?;
        let taken = self.probe(&connection).await?;
        self.connection.store(Some(connection));
        Ok(taken)
    }

    /// Counts a request towards a budget that no client uses. So the check also fails if the server
    /// can only read.
    async fn probe(&self, connection: &Arc<MultiplexedConnection>) -> Result<Duration, Error> {
        let budget = SharedBudget {
            name: "check".into(),
            interval: Duration::from_millis(1),
            tolerance: Duration::from_mins(1),
        };
        let start = Instant::now();
        self.invoke::<(usize, u64)>(connection, &self.take, &[budget])
            .await?;
        Ok(start.elapsed())
    }

    /// Runs a script. After a failure, no further request uses this connection.
    async fn invoke<T: redis::FromRedisValue>(
        &self,
        connection: &Arc<MultiplexedConnection>,
        script: &Script,
        budgets: &[SharedBudget],
    ) -> Result<T, Error> {
        let mut invocation = script.prepare_invoke();
        for budget in budgets {
            invocation.key(format!("{PREFIX}{}", budget.name));
            for time in [budget.interval, budget.tolerance] {
                invocation.arg(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
            }
        }
        let mut own = MultiplexedConnection::clone(connection);
        let result = timeout(TIMEOUT, invocation.invoke_async(&mut own)).await;
        let result = result
            .map_err(|_| Error::Timeout(TIMEOUT))
            .and_then(|result| result.map_err(Error::from));
        if result.is_err() {
            self.connection
                .compare_and_swap(connection, None::<Arc<MultiplexedConnection>>);
        }
        result
    }

    /// Runs a script for a request. Returns `None` if the server is unavailable.
    async fn invoke_for_request<T: redis::FromRedisValue>(
        &self,
        script: &Script,
        budgets: &[SharedBudget],
    ) -> Option<T> {
        let connection = self.connection.load_full()?;
        match self.invoke(&connection, script, budgets).await {
            Ok(value) => Some(value),
            Err(error) => {
                // Another request or the periodic check can have connected again. Then the server
                // is not reported as unavailable.
                if !self.is_available() {
                    self.report(Some(&error));
                }
                None
            }
        }
    }

    /// Logs that the server is available, or the error if the server is unavailable. Logs nothing
    /// if the state is the same as in the last log line about the server.
    fn report(&self, error: Option<&Error>) {
        if self.reported.swap(error.is_none(), Ordering::Relaxed) == error.is_none() {
            return;
        }
        let server = self.server();
        if let Some(error) = error {
            tracing::warn!(%server, %error, "Redis is unavailable; rate limits apply per host");
        } else {
            tracing::info!(%server, "Redis is available again; hosts share rate limits");
        }
    }
}

impl SharedBudgets for RedisBudgets {
    fn is_available(&self) -> bool {
        self.connection.load().is_some()
    }

    fn take<'a>(&'a self, budgets: &'a [SharedBudget]) -> BoxFuture<'a, Option<Taken>> {
        Box::pin(async move {
            let (index, full_in) = self
                .invoke_for_request::<(usize, u64)>(&self.take, budgets)
                .await?;
            let full_in = Duration::from_nanos(full_in);
            Some(match index.checked_sub(1) {
                None => Taken::Accepted { full_in },
                Some(index) => Taken::Rejected { index, full_in },
            })
        })
    }

    fn give_back<'a>(&'a self, budgets: &'a [SharedBudget]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let _: Option<i64> = self.invoke_for_request(&self.give_back, budgets).await;
        })
    }
}

impl fmt::Debug for RedisBudgets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBudgets")
            .field("server", &self.server())
            .field("is_available", &self.is_available())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budgets(url: &str) -> Result<Option<RedisBudgets>, StartError> {
        RedisBudgets::new(&config::Redis {
            url: url.into(),
            insecure: false,
        })
    }

    #[test]
    fn the_address_of_the_server_contains_no_password() {
        for (url, server) in [
            ("redis://ada:s3cret@127.0.0.1:6380/2", "127.0.0.1:6380"),
            (
                "rediss://:s3cret@redis.example.com",
                "redis.example.com:6379",
            ),
            ("unix:///run/redis.sock?pass=s3cret", "/run/redis.sock"),
            ("unix:/run/redis.sock", "/run/redis.sock"),
        ] {
            let budgets = budgets(url).unwrap().unwrap();
            assert_eq!(budgets.server(), server);
            assert!(!format!("{budgets:?}").contains("s3cret"));
        }
        assert!(budgets("").unwrap().is_none());
    }

    #[test]
    fn an_invalid_url_is_refused_without_its_password() {
        for url in ["redis://:s3cret@127.0.0.1/x", "http://:s3cret@127.0.0.1"] {
            let error = budgets(url).unwrap_err().to_string();
            assert!(error.starts_with("`redis.url`"), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[tokio::test]
    async fn without_a_server_each_host_counts_itself() {
        let config = config::Redis {
            url: "redis://127.0.0.1:1".into(),
            insecure: false,
        };
        let budgets = RedisBudgets::start(&config).await.unwrap().unwrap();
        assert!(!budgets.is_available());
        assert_eq!(budgets.take(&[]).await, None);
        budgets.give_back(&[]).await;
    }
}
