# Sourced by scripts that build one crate: the dependencies get the features that they have in a
# build of the whole workspace. Otherwise cargo would compile them again for each selection of
# crates. Stable cargo accepts this setting only with the third variable. A cargo that does not
# know the variables ignores them: then the first build takes minutes longer.
export CARGO_RESOLVER_FEATURE_UNIFICATION=workspace
export CARGO_UNSTABLE_FEATURE_UNIFICATION=true
export __CARGO_TEST_CHANNEL_OVERRIDE_DO_NOT_USE_THIS=nightly
