//! `GET /api/readiness`: checks whether the service can reach the database and the mail server.

use std::fmt::Display;
use std::time::Duration;

use http::StatusCode;
use serde::Serialize;
use tokio::time::timeout;
use utoipa::ToSchema;

use crate::app::App;
use crate::message::{self, Request, Response};
use crate::rejection::Rejection;

/// The maximum duration of each check. Prometheus waits 10 seconds for the metrics, which use these
/// checks too.
pub const TIMEOUT: Duration = Duration::from_secs(3);

/// The response if the service can reach the database and the mail server.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Ready {
    /// Always `ok`.
    #[schema(example = "ok")]
    status: &'static str,
    /// Always `ok`.
    #[schema(example = "ok")]
    database: &'static str,
}

/// The response if the service cannot reach the database, the mail server, or both.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NotReady {
    /// Always `unavailable`.
    #[schema(example = "unavailable")]
    status: &'static str,
    /// `ok` if the service can reach the database, otherwise `unavailable`.
    #[schema(example = "ok")]
    database: &'static str,
    /// `ok` if the service can reach the mail server, otherwise `unavailable`.
    #[schema(example = "unavailable")]
    mail: &'static str,
    /// The reason if the database and the mail server can be reached: `stopping` if the service is
    /// about to stop, `modules` if a module does not serve its current version on this host, but
    /// another host has no such problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "stopping")]
    reason: Option<&'static str>,
}

/// Check whether the service is ready
///
/// Connects to the database and the mail server.
#[utoipa::path(
    get,
    path = "/api/readiness",
    operation_id = "readiness",
    tag = "Service",
    responses(
        (status = 200, description = "The database and the mail server can be reached", body = Ready),
        (status = 503, description = "The database or the mail server cannot be reached, or this host should get no requests", body = NotReady)
    )
)]
pub(super) async fn readiness(app: &App, _: &Request) -> Result<Response, Rejection> {
    check(app).await.response()
}

/// The result of the checks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readiness {
    /// Whether the database can be reached.
    pub(crate) database: bool,
    /// Whether the mail server can be reached.
    pub(crate) mail: bool,
    /// The reason why this host should get no requests, although the database and the mail server
    /// can be reached.
    reason: Option<&'static str>,
}

impl Readiness {
    /// Whether this host is ready for requests.
    pub(crate) fn is_ready(self) -> bool {
        self.database && self.mail && self.reason.is_none()
    }

    fn response(self) -> Result<Response, Rejection> {
        if self.is_ready() {
            let ready = Ready {
                status: "ok",
                database: "ok",
            };
            return message::json(StatusCode::OK, &ready);
        }
        let not_ready = NotReady {
            status: "unavailable",
            database: status(self.database),
            mail: status(self.mail),
            reason: self.reason,
        };
        message::json(StatusCode::SERVICE_UNAVAILABLE, &not_ready)
    }
}

/// Checks the database and the mail server at the same time. Logs each failure.
pub(crate) async fn check(app: &App) -> Readiness {
    let database = async {
        app.directory.ping().await?;
        app.not_ready().await
    };
    check_within(database, app.mail.connections.ping(), TIMEOUT).await
}

async fn check_within<D: Display, M: Display>(
    database: impl Future<Output = Result<Option<&'static str>, D>>,
    mail: impl Future<Output = Result<(), M>>,
    max_duration: Duration,
) -> Readiness {
    let (database, mail) = tokio::join!(
        ping_within("database", database, max_duration),
        ping_within("mail server", mail, max_duration)
    );
    Readiness {
        database: database.is_some(),
        mail: mail.is_some(),
        reason: database.flatten(),
    }
}

/// Returns the result of `ping` if it succeeds within `max_duration`. Otherwise logs the failure
/// with the name of the checked server.
async fn ping_within<T, E: Display>(
    name: &str,
    ping: impl Future<Output = Result<T, E>>,
    max_duration: Duration,
) -> Option<T> {
    match timeout(max_duration, ping).await {
        Ok(Ok(value)) => Some(value),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the {name} is not available");
            None
        }
        Err(_) => {
            tracing::warn!("the {name} does not respond");
            None
        }
    }
}

fn status(available: bool) -> &'static str {
    if available { "ok" } else { "unavailable" }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use latchmail_runtime::modules::Content;
    use serde_json::{Value, json};

    use super::*;

    type Ping = Result<(), &'static str>;

    async fn response(
        database: impl Future<Output = Result<Option<&'static str>, &'static str>>,
        mail: impl Future<Output = Ping>,
    ) -> (u16, Value) {
        let readiness = check_within(database, mail, Duration::from_millis(20)).await;
        let response = readiness.response().unwrap();
        let Content::Bytes(body) = response.body else {
            panic!("unexpected blob");
        };
        (
            response.status.as_u16(),
            serde_json::from_slice(&body).unwrap(),
        )
    }

    #[tokio::test]
    async fn the_service_is_ready_if_both_servers_can_be_reached() {
        let ready = response(ready(Ok(None)), ready(Ok(()))).await;
        assert_eq!(ready, (200, json!({ "status": "ok", "database": "ok" })));
    }

    #[tokio::test]
    async fn a_host_that_should_get_no_requests_is_not_ready() {
        let body = json!({ "status": "unavailable", "database": "ok", "mail": "ok", "reason": "stopping" });
        let response = response(ready(Ok(Some("stopping"))), ready(Ok(()))).await;
        assert_eq!(response, (503, body));
    }

    #[tokio::test]
    async fn the_response_names_the_unavailable_server() {
        let down = |database, mail| {
            let body = json!({ "status": "unavailable", "database": database, "mail": mail });
            (503, body)
        };
        assert_eq!(
            response(ready(Ok(None)), ready(Err("refused"))).await,
            down("ok", "unavailable")
        );
        assert_eq!(
            response(ready(Err("locked")), pending()).await,
            down("unavailable", "unavailable")
        );
    }
}
