"""One sweep towards the family's fixed point by balancing flows: far fewer reads of the tables than eq. 5.

Write m_t = mu_{-t}, beta = 1 - alpha and K(x) = 1 / sum_s m_s^-beta, so that mu = K sum_s m_s^alpha q_s. That mu has the
marginals m_t says, after m_t = sum_{x_t} q_t m_t is taken from both sides, that for every site and context

    sum_{x_t} K sum_{s != t} m_s^-beta ( m_s q_s - m_t q_t ) = 0 :

the joints m_s q_s that each table gives with its own marginal need not agree, but their differences cancel along every
line. All terms have one sign on either side, so nothing is lost to cancellation, and solving for the factor m_t,

    m_t  <-  sum_{x_t} K sum_{s != t} m_s^alpha q_s  /  sum_{x_t} K q_t sum_{s != t} m_s^-beta ,

moves a marginal at once where eq. 5 creeps: for a pair

    u[x] <- sum_y A v k / sum_y B k,    v[y] <- sum_x B u k / sum_x A k,    k[x, y] = 1 / (u[x]^beta + v[y]^beta).

With alpha = 0 eq. 5 is Zermelo's iteration for a Bradley-Terry model of rows against columns (played C = A + B times;
strengths 1/u, 1/v), and this one is Newman's; with alpha = 1 it is u = A v, v = B^T u. A tile of the first axis holds
whole lines of every site but the first, so within one read the marginals m_1.. are renewed and then used for m_0.
"""

from __future__ import annotations

from torch import Tensor

from unmask.joints.solver.marginals import Marginals, centred, flat, unflat
from unmask.joints.solver.pair_sweep import sweep_pair
from unmask.joints.tiles import at, contexts, tile_size, tiles
from unmask.tables.unary import Tables


def sweep(tables: Tables, log_mu: Marginals, alpha: float) -> Marginals:
    """One read of the tables: new marginals m_1.., then a new m_0 from them. The sum of m_0 is one."""
    if tables.sites != 2:
        return _scaled(sweep_sites(tables, log_mu, alpha))
    point = flat(log_mu)
    return unflat(sweep_pair(tables, point[None, :], point.new_full((1, 1), alpha))[0], log_mu)


def _scaled(log_mu: Marginals) -> Marginals:
    """The fixed point is known up to one factor, common to all marginals."""
    log_z = log_mu[0].logsumexp(tuple(range(log_mu[0].dim())))
    return tuple(m - log_z for m in log_mu)


def sweep_sites(tables: Tables, log_mu: Marginals, alpha: float) -> Marginals:
    """The sweep of any number of sites, its scale left as it comes."""
    dtype = tables.log_q[0].dtype
    m, _ = centred(log_mu, dtype)
    above, below = contexts(tables, 0), contexts(tables, 0)
    for index in tiles(tables.shape, tile_size(tables)):
        q = [at(log_q, index).exp() for log_q in tables.log_q]
        here = [at(log_m, index) for log_m in m]
        for t in range(1, tables.sites):
            up, down = _flows(q, here, t, alpha)
            here[t] = up.double().log() - down.double().log()
            at(m[t], index).copy_(here[t])
        up, down = _flows(q, here, 0, alpha)
        above += up
        below += down
    m[0] = above.log() - below.log()
    return tuple(m)


def _flows(q: list[Tensor], log_m: list[Tensor], t: int, alpha: float) -> tuple[Tensor, Tensor]:
    """The two sums over x_t whose ratio is the new m_t."""
    dtype = q[0].dtype
    inverse = [((alpha - 1) * m).exp().to(dtype) for m in log_m]
    others = [s for s in range(len(q)) if s != t]
    incoming = sum(q[s] * (alpha * log_m[s]).exp().to(dtype) for s in others)
    against = sum(inverse[s] for s in others)
    assert isinstance(incoming, Tensor) and isinstance(against, Tensor)
    k = (against + inverse[t]).reciprocal_()
    return (incoming * k).sum(t, keepdim=True), (q[t] * against * k).sum(t, keepdim=True)
