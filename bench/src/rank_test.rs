//! The Mann-Whitney U test with the normal approximation. No crate is used, because those that have
//! this test depend on many packages.

use std::f64::consts::SQRT_2;

/// Returns the one-sided p: the probability of a rank sum of `larger` of at least this size, if
/// both lists of samples have the same distribution. Corrects for equal samples and for continuity,
/// as scipy does with `alternative="greater"` and `method="asymptotic"`.
#[expect(clippy::cast_precision_loss, reason = "counts of samples")]
pub(crate) fn p_of_larger(larger: &[f64], other: &[f64]) -> f64 {
    let mut all: Vec<(f64, bool)> = larger.iter().map(|sample| (*sample, true)).collect();
    all.extend(other.iter().map(|sample| (*sample, false)));
    all.sort_unstable_by(|(left, _), (right, _)| left.total_cmp(right));
    let (mut rank_sum, mut ties, mut ranked) = (0.0, 0.0, 0);
    for equal in all.chunk_by(|(left, _), (right, _)| left.total_cmp(right).is_eq()) {
        let count = equal.len() as f64;
        // Equal samples have the mean of their ranks, which begin with 1.
        let rank = ranked as f64 + f64::midpoint(count, 1.0);
        rank_sum += rank * equal.iter().filter(|(_, is_larger)| *is_larger).count() as f64;
        ties += count.powi(3) - count;
        ranked += equal.len();
    }
    let (first, second, total) = (larger.len() as f64, other.len() as f64, ranked as f64);
    let u = rank_sum - first * (first + 1.0) / 2.0;
    let variance = first * second / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let z = (u - first * second / 2.0 - 0.5) / variance.sqrt();
    // The probability that a normally distributed value exceeds z.
    libm::erfc(z / SQRT_2) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_is_that_of_scipy() {
        let (male, female) = ([19.0, 22.0, 16.0, 29.0, 24.0], [20.0, 11.0, 17.0, 12.0]);
        // Half of the two-sided p in the documentation of scipy.stats.mannwhitneyu.
        assert!((p_of_larger(&male, &female) - 0.111_346_886_533_140_41 / 2.0).abs() < 1e-12);
    }

    #[test]
    fn equal_samples_have_p_one() {
        assert!((p_of_larger(&[1.0; 5], &[1.0; 5]) - 1.0).abs() < 1e-12);
    }
}
