//! `/admin/limits`: the rate limits, and the requests that exceeded them.

use latchmail_core::limits::Bucket;
use maud::html;

use super::layout::{Section, table, time};
use super::listener::PageState;
use super::visit::{Visit, respond};
use crate::message::{Request, Response};
use crate::rejection::Rejection;

pub(super) const PATH: &str = "/admin/limits";

const HEADINGS: [&str; 4] = [
    "Limit",
    "Requests per minute",
    "Rejected requests",
    "Last rejection",
];

/// Lists the rate limits.
pub(super) async fn list(state: &PageState, request: &Request) -> Result<Response, Rejection> {
    let page = async {
        let visit = Visit::of(state, request).await?;
        let limits = &visit.app.http.limits;
        let rows = html! {
            @for bucket in Bucket::ALL {
                @let rejected = limits.rejected(*bucket);
                tr {
                    th scope="row" { (bucket.name()) }
                    td.number { (limits.per_minute(*bucket)) }
                    td.number { (rejected.count) }
                    td {
                        @match rejected.last_at {
                            Some(at) => { (time(at.millis())) },
                            None => { "–" },
                        }
                    }
                }
            }
        };
        let body = html! {
            p.soft { "The numbers are those of the API on this host since its start. The configuration keys are " code { "limits.NAME" } "." }
            (table("Rate limits", &HEADINGS, &rows))
        };
        visit.page(Some(Section::Limits), "Rate limits", &body)
    };
    respond(state, request, Bucket::Admin, page).await
}
