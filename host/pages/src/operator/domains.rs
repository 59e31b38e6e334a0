//! `/admin/domains`: the platform domains, and the custom domains that accounts own or claim.

use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use maud::html;

use super::layout::{Section, table, time};
use super::state::PageState;
use super::visit::{Visit, respond};

const PLATFORM: [&str; 4] = ["Domain", "Origin", "Accounts", "Aliases"];
const CUSTOM: [&str; 5] = ["Domain", "Account", "State", "Claimed", "Verified"];

/// Lists the platform domains, and the custom domains and claims of accounts.
pub(super) async fn list(state: &PageState, request: &Request) -> Result<Response, Rejection> {
    let page = async {
        let visit = Visit::of(state, request).await?;
        let directory = &visit.app.directory;
        let mut platform = Vec::new();
        for domain in directory.domains.platform_domains().await? {
            let in_use = directory.domains.in_use(&domain.domain).await?;
            platform.push((domain, in_use));
        }
        let claims = directory.domains.claims("").await?;
        let platform_rows = html! {
            @for (domain, in_use) in &platform {
                tr {
                    th scope="row" { (domain.domain) }
                    td {
                        @match domain.added_at {
                            Some(at) => { "Added " (time(at)) },
                            None => { "Configuration" },
                        }
                    }
                    td.number { (in_use.accounts) }
                    td.number { (in_use.aliases) }
                }
            }
        };
        let custom_rows = html! {
            @for claim in &claims {
                tr {
                    th scope="row" { (claim.domain.name) }
                    td { (claim.owner) }
                    @match claim.domain.verified_at {
                        Some(at) => {
                            td { span.good { "Verified" } }
                            td { (time(claim.domain.created_at.millis())) }
                            td { (time(at.millis())) }
                        }
                        None => {
                            td { "Pending" }
                            td { (time(claim.domain.created_at.millis())) }
                            td { "–" }
                        }
                    }
                }
            }
        };
        let body = html! {
            h2 { "Domains of the platform" }
            (table("Domains on which accounts can be created", &PLATFORM, &platform_rows))
            h2 { "Domains of accounts" }
            @if claims.is_empty() {
                p { "No account has a domain." }
            } @else {
                (table("Domains and claims of accounts", &CUSTOM, &custom_rows))
            }
        };
        visit.page(Some(Section::Domains), "Domains", &body)
    };
    respond(request, page).await
}
