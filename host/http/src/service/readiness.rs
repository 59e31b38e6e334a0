//! `GET /api/readiness`: whether the database and the mail server can be reached.

use std::fmt::Display;
use std::time::Duration;

use http::StatusCode;
use serde::Serialize;
use tokio::time::timeout;
use utoipa::ToSchema;

use crate::App;
use crate::message;
use crate::rejection::Rejection;
use crate::{Request, Response};

/// The timeout of each check.
const PATIENCE: Duration = Duration::from_secs(3);

/// The database and the mail server can be reached.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Ready {
    /// `ok`
    #[schema(example = "ok")]
    status: &'static str,
    /// `ok`
    #[schema(example = "ok")]
    database: &'static str,
}

/// The database, the mail server or both cannot be reached.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NotReady {
    /// `unavailable`
    #[schema(example = "unavailable")]
    status: &'static str,
    /// `ok` or `unavailable`
    #[schema(example = "ok")]
    database: &'static str,
    /// `ok` or `unavailable`
    #[schema(example = "unavailable")]
    mail: &'static str,
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
        (status = 503, description = "The database or the mail server cannot be reached", body = NotReady)
    )
)]
pub(super) async fn readiness(app: &App, _: &Request) -> Result<Response, Rejection> {
    check(app.directory.ping(), app.mail.ping(), PATIENCE).await
}

async fn check<D: Display, M: Display>(
    database: impl Future<Output = Result<(), D>>,
    mail: impl Future<Output = Result<(), M>>,
    patience: Duration,
) -> Result<Response, Rejection> {
    let (database, mail) = tokio::join!(
        one("database", database, patience),
        one("mail server", mail, patience)
    );
    if database && mail {
        let ready = Ready {
            status: "ok",
            database: "ok",
        };
        return message::json(StatusCode::OK, &ready);
    }
    let not_ready = NotReady {
        status: "unavailable",
        database: word(database),
        mail: word(mail),
    };
    message::json(StatusCode::SERVICE_UNAVAILABLE, &not_ready)
}

async fn one<E: Display>(
    name: &str,
    ping: impl Future<Output = Result<(), E>>,
    patience: Duration,
) -> bool {
    match timeout(patience, ping).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            tracing::warn!(%error, "the {name} is not available");
            false
        }
        Err(_) => {
            tracing::warn!("the {name} does not respond");
            false
        }
    }
}

fn word(available: bool) -> &'static str {
    if available { "ok" } else { "unavailable" }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use latchmail_runtime::modules::Content;
    use serde_json::{Value, json};

    use super::*;

    type Ping = Result<(), &'static str>;

    async fn answered(
        database: impl Future<Output = Ping>,
        mail: impl Future<Output = Ping>,
    ) -> (u16, Value) {
        let reply = check(database, mail, Duration::from_millis(20))
            .await
            .unwrap();
        let Content::Bytes(body) = reply.body else {
            panic!("a blob");
        };
        (
            reply.status.as_u16(),
            serde_json::from_slice(&body).unwrap(),
        )
    }

    #[tokio::test]
    async fn it_is_ready_when_both_can_be_reached() {
        let ready = answered(ready(Ok(())), ready(Ok(()))).await;
        assert_eq!(ready, (200, json!({ "status": "ok", "database": "ok" })));
    }

    #[tokio::test]
    async fn it_names_what_cannot_be_reached() {
        let down = |database, mail| {
            let body = json!({ "status": "unavailable", "database": database, "mail": mail });
            (503, body)
        };
        assert_eq!(
            answered(ready(Ok(())), ready(Err("refused"))).await,
            down("ok", "unavailable")
        );
        assert_eq!(
            answered(ready(Err("locked")), pending()).await,
            down("unavailable", "unavailable")
        );
    }
}
