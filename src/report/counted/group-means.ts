// Measures how well the other rewards of a group foretell each, in the order of the file.
import { Reliability, type ReliabilityCurve } from './reliability.js';

/** Traces of a group that are looked at together. */
const MOST = 4096;

/** Gathers them; a group is what stands together under one name. */
export class GroupMeans {
  private readonly reliability = new Reliability();
  private current: string | undefined;
  private rewards: number[] = [];

  add(group: string | undefined, reward: number | null): void {
    if (group !== this.current || this.rewards.length === MOST) this.end();
    this.current = group;
    if (group !== undefined && reward !== null) this.rewards.push(reward);
  }

  private end(): void {
    const { rewards } = this;
    const sum = rewards.reduce((total, reward) => total + reward, 0);
    if (rewards.length > 1)
      for (const reward of rewards) this.reliability.add((sum - reward) / (rewards.length - 1), reward);
    this.rewards = [];
  }

  /** Of all that were added. */
  get curve(): ReliabilityCurve {
    this.end();
    return this.reliability.curve;
  }
}
