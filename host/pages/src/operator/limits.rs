//! `/admin/limits`: the rate limits, and the counts of requests that exceeded each limit.

use latchmail_core::limits::{Bucket, rejections};
use latchmail_core::metrics::SIGN_IN_ADDRESS;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use maud::html;

use super::layout::{Section, table, time};
use super::state::PageState;
use super::visit::{Visit, respond};

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
        let buckets = Bucket::ALL.iter();
        let buckets = buckets.map(|bucket| (bucket.name(), limits.per_minute(*bucket)));
        let sign_ins = (SIGN_IN_ADDRESS, limits.sign_in_address_per_minute());
        let rows = html! {
            @for (name, per_minute) in buckets.chain([sign_ins]) {
                @let rejected = rejections(name);
                tr {
                    th scope="row" { (name) }
                    td.number { (per_minute) }
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
            p.soft { "The numbers are those of this host since its start. The configuration keys are " code { "limits.NAME" } "." }
            (table("Rate limits", &HEADINGS, &rows))
        };
        visit.page(Some(Section::Limits), "Rate limits", &body)
    };
    respond(request, page).await
}
